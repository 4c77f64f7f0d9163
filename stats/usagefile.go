package stats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// usageVersion is the version of usage.json that is written; newer ones are refused.
const usageVersion = 2

// legacyKey has what came from a usage file that knew no keys.
const legacyKey = "(legacy)"

// position is how far the aggregate has read the journal.
type position struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
}

// after reports whether p is behind the other one.
func (p position) after(other position) bool {
	return p.File > other.File || p.File == other.File && p.Offset > other.Offset
}

// usageFile is usage.json, version 2. Reference 2 wrote it without through.
type usageFile struct {
	Version        int                                      `json:"version"`
	Through        *position                                `json:"through,omitempty"`
	Keys           map[string]map[string]map[string]Figures `json:"keys"`            // key id → model → date
	RequestRecords map[string]map[string]Figures            `json:"request_records"` // caller code → date
}

func (a *aggregate) encode(through position) ([]byte, error) {
	f := usageFile{
		Version:        usageVersion,
		Through:        &through,
		Keys:           map[string]map[string]map[string]Figures{},
		RequestRecords: map[string]map[string]Figures{},
	}
	for date, d := range a.days {
		for k, fig := range d.keys {
			if f.Keys[k.key] == nil {
				f.Keys[k.key] = map[string]map[string]Figures{}
			}
			if f.Keys[k.key][k.model] == nil {
				f.Keys[k.key][k.model] = map[string]Figures{}
			}
			f.Keys[k.key][k.model][date] = fig
		}
		for code, fig := range d.callers {
			if f.RequestRecords[code] == nil {
				f.RequestRecords[code] = map[string]Figures{}
			}
			f.RequestRecords[code][date] = fig
		}
	}
	return json.Marshal(f)
}

// newerError refuses a file of a later program.
type newerError struct{ version int }

func (e *newerError) Error() string {
	return fmt.Sprintf("usage file: version %d is newer than this program knows (%d); it is left untouched", e.version, usageVersion)
}

// decodeUsage reads usage.json of version 1 or 2. through is nil where the file does not say it. Days that are no
// dates are an error: the file is not what it seems.
func decodeUsage(data []byte) (a *aggregate, through *position, err error) {
	var head struct {
		Version *json.Number `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, nil, fmt.Errorf("usage file: %w", err)
	}
	version := int64(1)
	if head.Version != nil {
		if version, err = head.Version.Int64(); err != nil {
			return nil, nil, fmt.Errorf("usage file: version: %w", err)
		}
	}
	switch {
	case version > usageVersion:
		return nil, nil, &newerError{int(version)}
	case version == usageVersion:
		return decodeUsage2(data)
	}
	a, err = decodeUsage1(data)
	return a, nil, err
}

func decodeUsage2(data []byte) (*aggregate, *position, error) {
	var f usageFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, fmt.Errorf("usage file: %w", err)
	}
	if t := f.Through; t != nil && (t.Offset < 0 || !isJournalName(t.File) && t.File != "") {
		return nil, nil, fmt.Errorf("usage file: through names no journal file")
	}
	a := newAggregate()
	for key, models := range f.Keys {
		for model, days := range models {
			for date, fig := range days {
				if !isDate(date) {
					return nil, nil, fmt.Errorf("usage file: %q is no date", date)
				}
				a.day(date).keys[keyModel{key, model}] = fig
			}
		}
	}
	for code, days := range f.RequestRecords {
		for date, fig := range days {
			if !isDate(date) {
				return nil, nil, fmt.Errorf("usage file: %q is no date", date)
			}
			a.day(date).callers[code] = fig
		}
	}
	return a, f.Through, nil
}

// decodeUsage1 reads model → date → figures, at the top or below "models".
func decodeUsage1(data []byte) (*aggregate, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("usage file: %w", err)
	}
	if m, ok := top["models"]; ok {
		top = nil
		if err := json.Unmarshal(m, &top); err != nil {
			return nil, fmt.Errorf("usage file: models: %w", err)
		}
	}
	a := newAggregate()
	for model, raw := range top {
		if model == "version" {
			continue
		}
		var days map[string]figures1
		if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			continue // a note beside the models
		}
		if err := json.Unmarshal(raw, &days); err != nil {
			return nil, fmt.Errorf("usage file: %q: %w", model, err)
		}
		for date, f := range days {
			if !isDate(date) {
				return nil, fmt.Errorf("usage file: %q is no date", date)
			}
			a.day(date).keys[keyModel{legacyKey, model}] = f.figures()
		}
	}
	return a, nil
}

// figures1 accepts the names that older files used.
type figures1 struct {
	Figures
	Count                    int64 `json:"count"`
	Input                    int64 `json:"input"`
	Output                   int64 `json:"output"`
	CacheCreation            int64 `json:"cache_creation"`
	CacheRead                int64 `json:"cache_read"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
}

func (f figures1) figures() Figures {
	out := f.Figures
	out.Requests = max(out.Requests, f.Count)
	out.InputTokens = max(out.InputTokens, f.Input)
	out.OutputTokens = max(out.OutputTokens, f.Output)
	out.CacheCreationTokens = max(out.CacheCreationTokens, f.CacheCreation, f.CacheCreationInputTokens)
	out.CacheReadTokens = max(out.CacheReadTokens, f.CacheRead, f.CacheReadInputTokens)
	return out
}

func isDate(s string) bool {
	_, err := time.Parse(dateForm, s)
	return err == nil
}

func isJournalName(s string) bool {
	date, ok := strings.CutSuffix(s, journalSuffix)
	return ok && isDate(date)
}
