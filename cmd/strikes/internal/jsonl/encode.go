// Package jsonl turns messages into lines of JSON, and back.
package jsonl

import (
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// NewEncoder returns an encoder that prints values as JSON, one line each, in which nothing is left that a terminal
// might obey: encoding/json escapes less than printable does, and who reads it gets the same from an escape.
func NewEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(escaping{w}) }

// escaping escapes JSON that is written to it, whole lines at a time.
type escaping struct{ w io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	if _, err := e.w.Write(Escape(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Escape escapes what is not printable in valid JSON. Except for line ends, only strings hold such characters.
func Escape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || strconv.IsPrint(r) {
			out = append(out, text[:size]...)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = append(out, '\\', 'u')
				out = append(out, strconv.FormatUint(uint64(unit)|0x10000, 16)[1:]...)
			}
		}
		text = text[size:]
	}
	return out
}
