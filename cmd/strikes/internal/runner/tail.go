package runner

import "strings"

// tailBytes leaves room for the exit status in a record's reason (counter.MaxReason).
const tailBytes = 900

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if surplus := len(t.kept) - tailBytes; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is valid UTF-8; it begins with a whole line if there is more than one.
func (t *tail) String() string {
	s := string(t.kept)
	if t.cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok && strings.TrimSpace(rest) != "" {
			s = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
}
