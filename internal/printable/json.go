package printable

import (
	"bytes"
	"encoding/json"
)

// deepestIndent is the depth beyond which JSON is not indented: a line would be mostly blanks, and 64 KiB of nested
// arrays would become gigabytes.
const deepestIndent = 30

// JSON returns a JSON text on lines of its own, or as it is if it is nested deeper than 30, cut after most bytes. It
// returns false if the text is not JSON.
func JSON(text []byte, most int) (indented string, ok bool) {
	if !json.Valid(text) {
		return "", false
	}
	text = bytes.TrimSpace(text)
	if !isDeep(text) {
		var b bytes.Buffer
		_ = json.Indent(&b, text, "", "  ") // it is valid
		text = b.Bytes()
	}
	return string(text[:min(len(text), most)]), true
}

// isDeep takes brackets in strings for levels, too: the text is not indented then.
func isDeep(text []byte) bool {
	depth := 0
	for _, b := range text {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > deepestIndent {
			return true
		}
	}
	return false
}
