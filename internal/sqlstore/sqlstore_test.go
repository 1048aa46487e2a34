package sqlstore

import (
	"errors"
	"strings"
	"testing"
)

// TestFailed: a password is in no error, and hides neither the command to run nor the remedy, if it is a word of them.
func TestFailed(t *testing.T) {
	const password = "strikes"
	for _, tt := range []struct {
		err      error
		do, want string
	}{
		{CheckVersion(""), "", "run: strikes store migrate"},
		{errors.New("dial user:strikes@db:\n\tone\n\ttwo"), "", "dial user:(password)@db: one; two"},
		{errors.New("dial:\n\th (1): tls error: server refused TLS connection\n\th (1): bad password\n\tg (2): away" +
			"\n\tg (2): away"), "", "refused TLS connection; h (1): bad password; g (2): away; g (2): away"},
		{errors.New("no table strikes_doc"), "", "no table strikes_doc"},
		{errors.New("denied"), "GRANT SELECT ON strikes_doc", "denied; GRANT SELECT ON strikes_doc"},
	} {
		b := Base{Password: password, Faults: []Fault{{Codes: "1", Do: tt.do}}, Code: func(error) string { return "1" }}
		err := b.Failed(tt.err)
		if !strings.Contains(err.Error(), tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("got %q, want %q", err, tt.want)
		}
	}
}
