package reason

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// reasons has a text as programs print it, and on the next line, after a tab, its group.
//
//go:embed testdata/reasons.txt
var reasons string

func TestNormalise(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(reasons, "\n"), "\n")
	n := 0
	var many Normaliser
	for i := 0; i+1 < len(lines); i += 2 {
		text, want := lines[i], strings.TrimPrefix(lines[i+1], "\t")
		if got := Normalise(text); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
		for range 2 {
			if got := many.Normalise(text); got != want {
				t.Errorf("%s\ngot  %s with a Normaliser\nwant %s", text, got, want)
			}
		}
		n++
	}
	if n < 200 {
		t.Errorf("%d texts, want 200 at least", n)
	}
}

func TestPairs(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"dial tcp 10.0.0.1:5432: connect: connection refused", "dial tcp [fd00::7]:5433: connect: connection refused", true},
		{"order 17: not found", "order 4711: not found", true},
		{"KeyError: 'customer_id'", "KeyError: 'sku'", true},
		{"timed out after 30s", "timed out after 1m30s", true},
		{"timed out after 30 seconds", "timed out after 1500 ms", true},
		{"open /tmp/a.txt: no such file or directory", "open /var/lib/b: no such file or directory", true},
		{"invoice 6f9619ff-8b86-d011-b42d-00c04fc964ff is paid",
			"invoice 00000000-0000-0000-0000-000000000001 is paid", true},
		{"a\nb", "a\nc", true},
		{"Order com.shop.Order@1a2b3c4d is locked", "Order com.shop.Order@99ffee00 is locked", true},
		{"expected ids [1, 2, 3]", "expected ids [7, 9]", true},
		{"certificate expired on 2026-01-01", "certificate expired on 2025-12-31", true},
		{"Request failed with status code 404", "Request failed with status code 503", false},
		{"503 Service Unavailable", "502 Bad Gateway", false},
		{"pq: duplicate key value violates unique constraint", "pq: deadlock detected", false},
		{"ERROR: deadlock detected (SQLSTATE 40P01)", "ERROR: deadlock detected (SQLSTATE 40001)", false},
		{"ORA-00060: deadlock detected", "ORA-00001: unique constraint violated", false},
		{"Error 1062 (23000): Duplicate entry 'a'", "Error 1213 (40001): Duplicate entry 'a'", false},
		{"connection refused", "connection reset by peer", false},
		{"java.net.ConnectException: x", "java.net.SocketException: x", false},
		{"[Errno 111] Connection refused", "[Errno 104] Connection refused", false},
		{"exit status 1", "exit status 2", false},
		{"don't panic", "can't panic", false},
	} {
		if a, b := Normalise(tc.a), Normalise(tc.b); (a == b) != tc.same {
			t.Errorf("%q and %q: %q and %q", tc.a, tc.b, a, b)
		}
	}
}

// check checks a result against the rules that hold for every one.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) {
	t.Helper()
	got := Normalise(text)
	if again := Normalise(got); again != got {
		t.Fatalf("%q becomes %q, and that %q", text, got, again)
	}
	if len(got) > most || strings.ContainsAny(got, "\r\n") || !utf8.ValidString(got) {
		t.Fatalf("%q becomes %q", text, got)
	}
}

func TestNormaliseTwiceIsOnce(t *testing.T) {
	piece := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9<>'":./ @-]{0,12}`),
		rapid.SampledFrom(strings.Fields(reasons)))
	rapid.Check(t, func(t *rapid.T) {
		check(t, strings.Join(rapid.SliceOfN(piece, 0, 80).Draw(t, "pieces"), rapid.SampledFrom([]string{"", " "}).Draw(t,
			"between")))
	})
}

// TestNormaliser: a Normaliser, which remembers, agrees with Normalise.
func TestNormaliser(t *testing.T) {
	var many Normaliser
	piece := rapid.OneOf(
		rapid.SampledFrom(strings.Fields(reasons)), rapid.SampledFrom(strings.Split(reasons, "\n")),
		rapid.StringMatching(`[0-9a-fA-FxP:.-]{1,18}`),
		rapid.StringMatching(`[a-zA-Z0-9<>'":./ @(\[-]{0,12}`), rapid.StringMatching(`-?[0-9]{1,6}`),
		rapid.StringMatching(`[a-z]{1,4}[0-9]{1,6}`),
		rapid.StringMatching(`[0-9]{1,4}[-:/.][0-9]{1,2}[-:/.][0-9]{1,2}`),
		rapid.StringMatching(`[0-9]{1,2} (Nov|May|Sun) [0-9]{1,4}`),
		rapid.StringMatching(`[0-9A-Za-z]{8,30}`),
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.SampledFrom([]string{"error", "Error", "(", "status", "http/1.1", "HTTP/1.1", "SQLSTATE", "Bad Request", "«",
			"»", "“", "µs", "ms", "E11000", "0x8004"}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"),
			rapid.SampledFrom([]string{"", " ", " ", ": "}).Draw(t, "between"))
		want := Normalise(text)
		if got := many.Normalise(text); got != want {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

// TestNumbersDoNotMatter: a text with another number is of the same group, wherever the number stands on its own.
func TestNumbersDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.IntRange(0, 1<<40)
		with := func(n int) string {
			return Normalise(strings.ReplaceAll("order N of customer N has N items", "N", strconv.Itoa(n)))
		}
		if a, b := with(numbers.Draw(t, "a")), with(numbers.Draw(t, "b")); a != b {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func FuzzNormalise(f *testing.F) {
	for _, line := range strings.Split(reasons, "\n") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, text) })
}
