package config

import (
	"io/fs"
	"path/filepath"
	"testing"
)

func TestLocate(t *testing.T) {
	port := func(n int) *int { return &n }
	const none = "(no file)"
	for _, tc := range []struct {
		name, file  string
		src         Source
		environment map[string]string
		want        string
		wrong       bool // the file as a whole
	}{
		{name: "no file", file: none, want: "data"},
		{name: "a file that was asked for and is not there", file: none, src: Source{Path: "other.json"}, want: "data", wrong: true},
		{name: "the same, with a port", file: none, src: Source{Path: "other.json", Port: port(4000)}, want: "data-4000", wrong: true},
		{name: "good", file: `{"server": {"data_dir": "d/e", "port": 4000}}`, want: "d/e"},
		{name: "second instance", file: `{"server": {"data_dir": "d", "port": 4000}}`, src: Source{Port: port(4001)}, want: "d-4001"},
		{name: "the same port", file: `{"server": {"data_dir": "d", "port": 4000}}`, src: Source{Port: port(4000)}, want: "d"},
		{name: "second instance by environment", file: none, environment: map[string]string{"PROXY_PORT": "4001"}, want: "data-4001"},
		{name: "data-dir before all", file: `{"server": {"data_dir": "d"}}`, src: Source{Port: port(1), DataDir: "f"}, environment: map[string]string{"PROXY_DATA_DIR": "g"}, want: "f"},
		{name: "variable in the file", file: `{"server": {"data_dir": "${WHERE}/d"}}`, environment: map[string]string{"WHERE": "w"}, want: "w/d"},
		{name: "the rest is wrong", file: `{"server": {"data_dir": "d", "port": "x", "nonsense": 1}, "pool": 7, "more": []}`, want: "d"},
		{name: "data_dir is wrong", file: `{"server": {"data_dir": 7}}`, want: "data"},
		{name: "a broken port in the environment", file: `{"server": {"data_dir": "d"}}`, environment: map[string]string{"PROXY_PORT": "x"}, want: "d"},
		{name: "no JSON behind it", file: `{"server": {"data_dir": "d", "port": 4000}, pool`, want: "d", wrong: true},
		{name: "no JSON before it", file: `{"log": {,}, "server": {"data_dir": "d\\e \"", "port": 4000}`, src: Source{Port: port(4000)}, want: `d\e "`, wrong: true},
		{name: "no JSON, the port differs", file: `{"server": {"port": 4000, "data_dir": "d"`, src: Source{Port: port(4001)}, want: "d-4001", wrong: true},
		{name: "empty", file: "", want: "data", wrong: true},
		{name: "a list", file: "[]", want: "data", wrong: true},
		{name: "not text", file: "\xff\x00{", want: "data", wrong: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := tc.src
			src.Getenv = func(name string) (string, bool) { v, ok := tc.environment[name]; return v, ok }
			src.ReadFile = func(path string) ([]byte, error) {
				if path != "config.json" || tc.file == none {
					return nil, fs.ErrNotExist
				}
				return []byte(tc.file), nil
			}
			dir, err := Locate(src)
			if dir != filepath.Clean(tc.want) || (err != nil) != tc.wrong {
				t.Errorf("%q, %v; want %q, wrong %t", dir, err, tc.want, tc.wrong)
			}
		})
	}
}

// TestLocateAsLoad compares with Load, which has the last word.
func TestLocateAsLoad(t *testing.T) {
	for _, file := range []string{`{}`, `{"server": {"data_dir": "d"}}`, `{"server": {"data_dir": "."}}`, `{"server": {"port": 7}}`} {
		for _, n := range []int{0, 7, 3456} {
			src := Source{Port: &n, Getenv: func(string) (string, bool) { return "", false },
				ReadFile: func(string) ([]byte, error) { return []byte(file), nil },
				Stat:     func(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }}
			c, err := Load(src)
			if err != nil {
				t.Fatal(err)
			}
			if dir, err := Locate(src); dir != c.Server.DataDir || err != nil {
				t.Errorf("%s, port %d: %q, %v; Load has %q", file, n, dir, err, c.Server.DataDir)
			}
		}
	}
}
