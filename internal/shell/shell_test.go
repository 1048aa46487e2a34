package shell

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

// names are usual names of queues, and hostile ones.
var names = []string{
	"orders", "billing.Prefetch", "Backoff", "the Management", "jo@shop", "amqp://jo:hush@shop/x", "a b", " ", "", "it's",
	`say "no"`, `a\b`, `\`, "$HOME",
	"${HOME}", "$(id)", "`id`", "a;b", "a&&b", "a|b", "*", "?", "~", "~root", "#x", "!x", "-q", "--", "--force", "{a,b}",
	"[a]", "a=b", "é", "日本語", "café 'x'",
	"a\tb", "\x1b[2J", "a\u200bb", "a\nb", "100%", "%s\t%d\\", "\x7f", "\ufffd", "counter: list", "store error:",
}

// pasted has a shell run a line, and returns the arguments of the command in it.
func pasted(t *testing.T, sh, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), sh, "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// TestPasted gives words to the installed shells, and expects the same words back.
func TestPasted(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a", nil, 0o600); err != nil { // which a pattern would find
		t.Fatal(err)
	}
	for _, sh := range []string{"sh", "dash", "bash", "zsh"} {
		if _, err := exec.LookPath(sh); err != nil {
			continue
		}
		for _, name := range names {
			for _, word := range []string{Word(name), Quote(name)} {
				if got := pasted(t, sh, `printf '%s\000' `+word); len(got) != 1 || got[0] != name {
					t.Errorf("%s: %q is pasted as %s and comes out as %q", sh, name, word, got)
				}
				if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q is printed as %q", name, word)
				}
			}
		}
	}
}

func TestOperands(t *testing.T) {
	for want, operands := range map[string][]string{
		"q":            {"q"},
		"-- -q":        {"-q"},
		"q 'it'\\''s'": {"q", "it's"},
		"-- q -x -y":   {"q", "-x", "-y"},
		"-- --":        {"--"},
	} {
		if got := Operands(operands...); got != want {
			t.Errorf("%q: %s, want %s", operands, got, want)
		}
	}
}
