package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// The JSON forms are documented in docs/cli.md and stable: fields are added,
// none is renamed or given another meaning.

type jsonFlag struct {
	JSON bool `name:"json" help:"Write lines of JSON."`
}

// label is a name in JSON, whose strings hold only Unicode, while a name is
// bytes: it has one of the two fields.
type label struct {
	Name    *string `json:"name,omitempty"`
	NameB64 []byte  `json:"name_b64,omitempty"`
}

func labelOf(name string) label {
	if utf8.ValidString(name) {
		return label{Name: &name}
	}
	return label{NameB64: []byte(name)}
}

// fields are the two fields, for a form that has them under other names.
func (l label) fields() (*string, []byte) { return l.Name, l.NameB64 }

// text is the name.
func (l label) text() string {
	if l.Name != nil {
		return *l.Name
	}
	return string(l.NameB64)
}

// outcome is what a change prints that gives no receipt.
type outcome struct {
	Op string `json:"op"`
	label
}

// writeJSON writes v as one line.
func (s *session) writeJSON(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// content writes what copy copies as an object of one line, base64 in one of
// its fields. When copy fails the line has no end, and so is no JSON.
func (s *session) content(name string, copy func(io.Writer) error) error {
	head, err := json.Marshal(labelOf(name))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(s.out, string(head[:len(head)-1])+`,"content_b64":"`); err != nil {
		return err
	}
	enc := base64.NewEncoder(base64.StdEncoding, s.out)
	if err := copy(enc); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(s.out, "\"}\n")
	return err
}
