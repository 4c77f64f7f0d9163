package config

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// expand replaces each ${NAME} whose variable is set. Every other $ is left alone, so nothing needs an escape;
// what a variable holds is not looked through again. It returns the names in s and those of them that are not set.
func expand(s string, lookup func(string) (string, bool)) (text string, names, unset []string) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), names, unset
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !isVariable(name) {
			out.WriteString("${")
			s = rest
			continue
		}
		names = append(names, name)
		if v, ok := lookup(name); ok {
			out.WriteString(v)
		} else {
			unset = append(unset, name)
			out.WriteString("${" + name + "}")
		}
		s = after
	}
}

func isVariable(name string) bool {
	for i, c := range name {
		if c != '_' && !isAlphanumeric(c) || i == 0 && '0' <= c && c <= '9' {
			return false
		}
	}
	return name != ""
}

// keyVariablePrefix begins the variables that replace the api_key of a pool key.
const keyVariablePrefix = "PROXY_API_KEY_"

// keyVariable names the variable that replaces the api_key of a key.
func keyVariable(id string) string {
	return keyVariablePrefix + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(id))
}

// variable returns what is set; an empty variable counts as not set, as compose files and unit files make them.
func (d *decoder) variable(name string) string {
	v, _ := d.lookup(name)
	return v
}

// setting is a value from outside the file. Without a text none was given.
type setting struct{ from, text string }

// setting prefers a flag to a variable.
func (d *decoder) setting(flag, flagText, variable string) setting {
	if flagText != "" {
		return setting{flag, flagText}
	}
	return setting{variable, d.variable(variable)}
}

// override puts flags and variables in the place of what the file says.
func (d *decoder) override(c *Config, src Source) {
	set := func(s setting, to *string, check func(string) string) bool {
		if s.text == "" {
			return false
		}
		if wrong := check(s.text); wrong != "" {
			d.fail(value{path: s.from}, "%s", wrong)
			return false
		}
		*to = s.text
		return true
	}

	if host := d.setting("--host", src.Host, "PROXY_HOST"); set(host, &c.Server.Host, hostName) {
		d.seen["server.host"] = value{path: host.from}
	}
	set(setting{"PROXY_USAGE_FILE", d.variable("PROXY_USAGE_FILE")}, &c.Stats.UsageFile, fileName)
	var level string
	if set(setting{"PROXY_LOG_LEVEL", d.variable("PROXY_LOG_LEVEL")}, &level, logLevel) {
		c.Log.Level = toLevel(level)
	}
	dirNamed := set(d.setting("--data-dir", src.DataDir, "PROXY_DATA_DIR"), &c.Server.DataDir, fileName)
	c.Server.DataDir = filepath.Clean(c.Server.DataDir)

	var flag, port string
	if src.Port != nil {
		flag = strconv.Itoa(*src.Port)
	}
	if !set(d.setting("--port", flag, "PROXY_PORT"), &port, portNumber) {
		return
	}
	before := c.Server.Port
	c.Server.Port, _ = strconv.Atoi(port)
	if c.Server.Port != before && !dirNamed {
		// A second instance never shares the first one's files.
		c.Server.DataDir = withSuffix(c.Server.DataDir, "-"+strconv.Itoa(c.Server.Port))
	}
}

// debugUsage switches the keeping of raw answers on, which is nothing to forget about.
func (d *decoder) debugUsage(c *Config) {
	at := value{path: "PROXY_DEBUG_USAGE"}
	switch strings.ToLower(d.variable(at.path)) {
	case "", "0", "false":
	case "1", "true":
		c.DebugUsage = true
		d.warn(at, "answers of upstreams are written as they come into %s, the newest 50: they hold what models say", filepath.Join(c.Server.DataDir, "debug"))
	default:
		d.fail(at, "must be 1 or 0")
	}
}

func withSuffix(dir, suffix string) string {
	switch filepath.Base(dir) {
	case ".", "..", string(filepath.Separator): // the suffix would make another name of it
		return filepath.Join(dir, "data"+suffix)
	}
	return dir + suffix
}

func toLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// strayVariables warns of key variables that belong to no key: a typing error would go unnoticed.
func (d *decoder) strayVariables(environ []string, c *Config) {
	var known []string
	for id := range c.Upstreams {
		known = append(known, keyVariable(id))
	}
	slices.Sort(known)
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		id, ok := strings.CutPrefix(name, keyVariablePrefix)
		if ok && isIdentifier(id) && !d.named[name] && !slices.Contains(known, name) {
			d.warn(value{path: name}, "no key has this id%s", didYouMean(name, known))
		}
	}
}
