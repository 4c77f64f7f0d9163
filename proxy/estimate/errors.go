package estimate

import (
	"encoding/json"
	"errors"
)

// FieldError says what is wrong with one field of a body. It holds nothing of the body's text, so a client may be
// shown it.
type FieldError struct {
	Field   string // such as "messages.2.content.0.text"; "body" for the body as a whole
	Problem string // such as "must be an array"
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// decode unmarshals raw, the value of the field at, into v. The error names the innermost field of a wrong type; want is
// what to ask for when that is raw itself.
func decode(raw []byte, v any, at, want string) error {
	if absent(raw) {
		return &FieldError{at, "must be " + want}
	}
	err := json.Unmarshal(raw, v)
	if err == nil {
		return nil
	}
	wrong := new(json.UnmarshalTypeError)
	switch {
	case !errors.As(err, &wrong):
		return &FieldError{at, "is not valid JSON"}
	case wrong.Field == "":
		return &FieldError{at, "must be " + want}
	case at == "body":
		return &FieldError{wrong.Field, "must be " + shape(wrong)}
	default:
		return &FieldError{at + "." + wrong.Field, "must be " + shape(wrong)}
	}
}

// shape names the JSON type that stands for the Go type decoded into.
func shape(wrong *json.UnmarshalTypeError) string {
	switch kind := wrong.Type.Kind().String(); kind {
	case "struct":
		return "an object"
	case "slice":
		return "an array"
	case "bool":
		return "a boolean"
	default:
		return "a " + kind
	}
}

// absent tells whether an optional field was left out, for which null stands as well.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
