package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// strict refuses what a decoder changes without a word in a line of JSON that it takes: of a field that is given twice
// it keeps one, and what is no text (half a surrogate pair, bytes that are not UTF-8) becomes U+FFFD.
func strict(line []byte) error {
	s := &strictly{line: line, d: json.NewDecoder(bytes.NewReader(line))}
	s.d.UseNumber()
	return s.value("")
}

type strictly struct {
	line []byte
	d    *json.Decoder
}

// value reads the value of a field; the path of an object's own fields begins with it.
func (s *strictly) value(path string) error {
	t, err := s.token(path)
	switch {
	case err != nil:
		return err
	case t == json.Delim('{'):
		err = s.fields(path)
	case t == json.Delim('['):
		for err == nil && s.d.More() {
			err = s.value(path)
		}
	default:
		return nil
	}
	if err == nil {
		_, err = s.d.Token() // the closing one
	}
	return err
}

func (s *strictly) fields(path string) error {
	seen := map[string]bool{}
	for s.d.More() {
		t, err := s.token(path)
		if err != nil {
			return err
		}
		name, _ := t.(string)
		field := name
		if path != "" {
			field = path + "." + name
		}
		switch {
		case path == "" && !isField(name):
			return fmt.Errorf("unknown field %q", name)
		case seen[name]:
			return fmt.Errorf("field %q is given twice", field)
		}
		seen[name] = true
		if err := s.value(field); err != nil {
			return err
		}
	}
	return nil
}

// isField reports whether a name may be one of an envelope's as it is: the decoder takes others for those as well, in
// upper case for one.
func isField(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

func (s *strictly) token(path string) (json.Token, error) {
	begin := s.d.InputOffset()
	t, err := s.d.Token()
	if _, text := t.(string); err != nil || !text {
		return t, err
	}
	if err := isText(s.line[begin:s.d.InputOffset()]); err != nil {
		if path == "" {
			return t, fmt.Errorf("the name of a field: %w", err)
		}
		return t, fmt.Errorf("field %q: %w", path, err)
	}
	return t, nil
}

// isText says what keeps a JSON string from being Unicode.
func isText(quoted []byte) error {
	if !utf8.Valid(quoted) {
		return errors.New(`it is not UTF-8 (what is no text goes into "body_base64")`)
	}
	for rest := quoted; ; {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return nil
		}
		rest = rest[at:]
		unit := escaped(rest)
		if !utf16.IsSurrogate(unit) {
			rest = rest[2:]
			continue
		}
		if second := escaped(rest[6:]); utf16.DecodeRune(unit, second) == utf8.RuneError {
			return fmt.Errorf("%s is half a surrogate pair, which is no character", rest[:6])
		}
		rest = rest[12:]
	}
}

// escaped is the UTF-16 unit that b begins with, as \u and four digits; 0 if it does not.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	unit, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(unit)
}
