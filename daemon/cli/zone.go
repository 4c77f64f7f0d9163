package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // Windows and small containers have no time zone database
)

// maxZoneFile bounds a zone file; the largest of the database has some 4 KiB.
const maxZoneFile = 1 << 20

// applyZone makes the zone that TZ names the local one, by whose calendar days and months are counted. Go would take UTC
// for a name that it does not know, and on Windows not look at TZ at all. It must come before the local zone is used.
func applyZone(env Environment) error {
	tz, ok := env.Getenv("TZ")
	if !ok {
		return nil // the system's
	}
	zone, err := findZone(tz)
	if err != nil {
		return fmt.Errorf("TZ is %q, and %w.\nDays and months are counted by that zone: write a name of the time zone database, such as Europe/Berlin or UTC, "+
			"or the path of a zone file. Rules such as UTC0 or CET-1CEST are not read", tz, err)
	}
	if time.Local.String() != zone.String() { // else Go has found the same
		time.Local = zone
	}
	return nil
}

// findZone reads TZ as POSIX systems do, rules excepted.
func findZone(tz string) (*time.Location, error) {
	name := strings.TrimPrefix(tz, ":")
	if filepath.IsAbs(name) || strings.HasPrefix(name, "/") {
		return readZone(name)
	}
	if name == "Local" { // LoadLocation would give what is to be found out
		return nil, errors.New("no time zone is called so")
	}
	zone, err := time.LoadLocation(name) // "" is UTC
	if err != nil {
		return nil, errors.New("no time zone is called so")
	}
	return zone, nil
}

func readZone(path string) (*time.Location, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("that file cannot be read (%w)", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxZoneFile))
	if err != nil {
		return nil, fmt.Errorf("that file cannot be read (%w)", err)
	}
	zone, err := time.LoadLocationFromTZData(path, data)
	if err != nil {
		return nil, errors.New("that file is no zone file")
	}
	return zone, nil
}

// needsZone reports whether a command has to do with days or times. The others work with any TZ: an instance that was
// started with a good one can be stopped all the same.
func needsZone(command string, args []string) bool {
	if slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--h" || a == "-help" || a == "--help" }) {
		return false
	}
	switch command {
	case "stop", "reload", "reset", "enable", "disable", "logout", "version", "help":
		return false
	}
	return true
}
