package daemon

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "coding-proxy"
	root   = ".." // of the module, seen from this folder
)

// arrows says which rooms a room may import. What is not listed is forbidden; a room without a row fails.
var arrows = map[string][]string{
	".":                     {"daemon/cli"},
	"auth":                  {},
	"auth/oauth":            {"auth"},
	"daemon":                {"auth", "auth/oauth", "daemon/config", "daemon/store", "pool", "proxy", "proxy/upstream", "stats", "web"},
	"daemon/cli":            {"auth", "auth/oauth", "daemon", "daemon/config", "daemon/store", "pool", "proxy/demo", "stats"},
	"daemon/config":         {"auth", "auth/oauth", "pool", "proxy", "proxy/upstream", "stats", "web"},
	"daemon/store":          {},
	"pool":                  {},
	"proxy":                 {"auth", "pool", "proxy/codec", "proxy/estimate", "proxy/ir", "proxy/rawjson", "proxy/sse", "proxy/upstream", "stats"},
	"proxy/codec":           {"proxy/ir"}, // and the dialects: those below it
	"proxy/codec/codectest": {"proxy/ir", "proxy/rawjson", "proxy/sse"},
	"proxy/demo":            {"proxy/sse"}, // it checks the codecs and imports none
	"proxy/estimate":        {},
	"proxy/ir":              {},
	"proxy/rawjson":         {},
	"proxy/sse":             {},
	"proxy/upstream":        {"auth", "auth/oauth", "proxy/ir", "proxy/upstream/antigravity", "proxy/upstream/copilot"},

	"proxy/upstream/antigravity":  {"auth", "auth/oauth", "proxy/ir", "proxy/rawjson", "proxy/sse"},
	"proxy/upstream/copilot":      {"auth", "auth/oauth", "proxy/ir", "proxy/rawjson", "proxy/sse"},
	"proxy/upstream/upstreamtest": {"auth", "proxy/ir"},
	"stats":                       {},
	"web":                         {"auth", "pool", "stats"},
}

// dialects are the folders below proxy/codec that speak one: all have the same arrows, never one to each other.
var dialects = []string{"anthropic", "gemini", "openaichat", "openairesponses"}

// row returns what a room may import; ok is false for a room without a row.
func row(room string) (allowed []string, ok bool) {
	if name, below := strings.CutPrefix(room, "proxy/codec/"); below && slices.Contains(dialects, name) {
		return []string{"proxy/ir", "proxy/rawjson", "proxy/sse"}, true
	}
	allowed, ok = arrows[room]
	if room == "proxy/codec" {
		for _, d := range dialects {
			allowed = append(slices.Clip(allowed), "proxy/codec/"+d)
		}
	}
	return allowed, ok
}

// impure returns what a pure room may not import.
func impure(room string) []string {
	if strings.HasPrefix(room, "proxy/codec/") && room != "proxy/codec/codectest" { // which draws its cases
		room = "proxy/codec"
	}
	return pure[room]
}

// pure rooms may not touch the world: ids and clocks are handed in.
var pure = map[string][]string{
	"proxy/codec":    {"net", "os", "log", "log/slog", "sync", "time", "math/rand", "math/rand/v2"}, // and all below it
	"proxy/estimate": {"net", "net/http", "os", "log", "log/slog", "sync", "time", "math/rand", "math/rand/v2"},
}

// The budgets of a file, a function and an interface.
const (
	maxFile, maxFunction, maxMethods = 800, 120, 4
)

// source is one Go file that is not a test.
type source struct {
	path, room string
	file       *ast.File
	set        *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name == "node_modules" || path != root && strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		room, err := filepath.Rel(root, filepath.Dir(path))
		all = append(all, source{path, filepath.ToSlash(room), f, set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no sources found")
	}
	return all
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		allowed, ok := row(s.room)
		if !ok {
			t.Errorf("%s: the room %s has no row in the table", s.path, s.room)
			continue
		}
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if problem := edge(s.room, path, allowed); problem != "" {
				t.Errorf("%s: %s", s.path, problem)
			}
		}
	}
}

// edge says why a room may not import the path, "" when it may.
func edge(room, path string, allowed []string) string {
	if slices.Contains(impure(room), path) {
		return fmt.Sprintf("%s is pure and may not import %s", room, path)
	}
	inside, ours := strings.CutPrefix(path, module+"/")
	switch first, _, _ := strings.Cut(path, "/"); {
	case ours && !slices.Contains(allowed, inside):
		return fmt.Sprintf("%s may not import %s: no such arrow in the table", room, inside)
	case !ours && strings.Contains(first, "."):
		return fmt.Sprintf("%s imports %s: the product has no dependency outside the standard library", room, path)
	}
	return ""
}

// TestArrowsCanFail shows that the rule finds what it is for.
func TestArrowsCanFail(t *testing.T) {
	for _, tc := range []struct{ room, path string }{
		{"pool", "coding-proxy/stats"}, {"web", "coding-proxy/proxy"}, {"auth", "github.com/google/uuid"},
		{"proxy/codec/anthropic", "time"}, {"proxy/codec/gemini", "coding-proxy/proxy/codec/anthropic"}, {"proxy/demo", "coding-proxy/proxy/codec"},
	} {
		allowed, _ := row(tc.room)
		if edge(tc.room, tc.path, allowed) == "" {
			t.Errorf("%s -> %s passes", tc.room, tc.path)
		}
	}
}

func TestBudgets(t *testing.T) {
	for _, s := range sources(t) {
		if n := s.set.Position(s.file.FileEnd).Line; n > maxFile {
			t.Errorf("%s has %d lines, more than %d", s.path, n, maxFile)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if lines := s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1; lines > maxFunction {
					t.Errorf("%s: %s has %d lines, more than %d", s.path, n.Name.Name, lines, maxFunction)
				}
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: init is not used here", s.path)
				}
			case *ast.InterfaceType:
				if n.Methods.NumFields() > maxMethods {
					t.Errorf("%s: an interface with %d methods, more than %d", s.path, n.Methods.NumFields(), maxMethods)
				}
			case *ast.SelectorExpr:
				outlawed(t, s, n)
			}
			return true
		})
	}
}

// outlawed reports uses of process-wide state where it has no place.
func outlawed(t *testing.T, s source, n *ast.SelectorExpr) {
	pkg, ok := n.X.(*ast.Ident)
	if !ok || pkg.Obj != nil {
		return
	}
	name := pkg.Name + "." + n.Sel.Name
	switch name {
	case "http.DefaultClient", "http.DefaultTransport", "http.DefaultServeMux", "http.Get", "http.Post":
		t.Errorf("%s: %s is used nowhere here", s.path, name)
	case "os.Exit", "os.Getenv", "os.LookupEnv", "os.Environ", "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Println", "fmt.Printf":
		if s.room != "." && s.room != "daemon/cli" {
			t.Errorf("%s: %s belongs into main or daemon/cli", s.path, name)
		}
	}
}

func TestMainIsShort(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\n"); n > 30 {
		t.Errorf("main.go has %d lines, more than 30", n)
	}
}

func TestNoDependency(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "require") || strings.HasPrefix(line, "replace") {
			t.Errorf("go.mod: %s", strings.TrimSpace(line))
		}
	}
}
