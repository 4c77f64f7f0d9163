package cli

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"
)

// aloneVariable names the test that has a process of its own.
const aloneVariable = "CODING_PROXY_TEST_ALONE"

// alone reports whether the test has the process for itself; else it runs the test in one that it has. It is for tests that
// change the local zone: time.Now reads that in goroutines that other tests have left behind.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneVariable) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), aloneVariable+"="+t.Name())
	if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// inZone makes a zone the local one of a test that is alone, which it reports.
func inZone(t *testing.T, name string) bool {
	t.Helper()
	if !alone(t) {
		return false
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	time.Local = zone
	return true
}
