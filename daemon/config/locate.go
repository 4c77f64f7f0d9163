package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// Locate returns the data directory that Load would, as far as it can be made out, even if the configuration is wrong:
// a running instance must be found all the same. Without a readable file, flags, environment and defaults say where it
// is. The error is what is wrong with the file as a whole; dataDir is good with it, too.
func Locate(src Source) (dataDir string, err error) {
	d := &decoder{lookup: src.Getenv, named: make(map[string]bool), seen: make(map[string]value)}
	c := defaults()
	path, data, err := find(src)
	if err == nil && path != "" {
		root, wrong := parse(data)
		if wrong != nil {
			root, err = salvage(data), &Problems{File: path, List: []Problem{*wrong}}
		}
		d.object(value{root, "", root.at}, []field{{"server", section(serverFields(&c.Server))}}) // the rest is Load's
	}
	d.override(c, src)
	return c.Server.DataDir, err
}

// salvage picks what Locate needs out of a file that is no JSON. No other section has members of these names.
func salvage(data []byte) *node {
	server := &node{kind: kindObject}
	add := func(name string, k kind, text string) {
		server.members = append(server.members, member{name: name, value: &node{kind: k, text: text}})
	}
	if m := regexp.MustCompile(`"data_dir"\s*:\s*("(?:[^"\\\n]|\\.)*")`).FindSubmatch(data); m != nil {
		var text string
		if json.Unmarshal(m[1], &text) == nil {
			add("data_dir", kindString, text)
		}
	}
	if m := regexp.MustCompile(`"port"\s*:\s*([0-9]+)`).FindSubmatch(data); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			add("port", kindNumber, fmt.Sprint(n))
		}
	}
	return &node{kind: kindObject, members: []member{{name: "server", value: server}}}
}
