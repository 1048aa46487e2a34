package printable

import (
	"bytes"
	"encoding/json"
	"strings"
)

// deepestIndent is the depth beyond which JSON is not indented: a line would be mostly blanks, and 64 KiB of nested
// arrays would become gigabytes.
const deepestIndent = 100

// JSON returns a JSON text on lines of its own, as json.Indent with two blanks does, but beyond a depth of 100 on one
// line, and cut after about most bytes. It returns false if the text is not JSON.
func JSON(text []byte, most int) (indented string, ok bool) {
	if !json.Valid(text) {
		return "", false
	}
	var b strings.Builder
	line := func(depth int) {
		if depth <= deepestIndent {
			b.WriteByte('\n')
			b.WriteString(strings.Repeat("  ", depth))
		}
	}
	depth, opened := 0, false // opened: nothing has followed the last bracket
	for len(text) > 0 && b.Len() < most {
		c, n := text[0], 1
		switch c {
		case ' ', '\t', '\r', '\n':
			text = text[1:]
			continue
		case ']', '}':
			if depth--; !opened {
				line(depth)
			}
			opened = false
			b.WriteByte(c)
			text = text[1:]
			continue
		}
		if opened {
			line(depth)
			opened = false
		}
		switch c {
		case '[', '{':
			depth++
			opened = true
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			line(depth)
		case ':':
			b.WriteString(": ")
		case '"':
			n = stringEnd(text)
			b.Write(text[:n])
		default:
			b.WriteByte(c)
		}
		text = text[n:]
	}
	return b.String(), true
}

// stringEnd returns the length of the JSON string that a text begins with.
func stringEnd(text []byte) int {
	for at := 1; ; at++ {
		at += bytes.IndexAny(text[at:], `"\`)
		if text[at] == '"' {
			return at + 1
		}
		at++ // what is escaped
	}
}
