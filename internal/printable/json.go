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

// isDeep reports whether a valid JSON text is nested deeper than deepestIndent.
func isDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text) && depth <= deepestIndent; i++ {
		switch b := text[i]; {
		case b == '"':
			quoted = !quoted
		case quoted && b == '\\':
			i++ // the next byte ends no string
		case quoted:
		case b == '[', b == '{':
			depth++
		case b == ']', b == '}':
			depth--
		}
	}
	return depth > deepestIndent
}
