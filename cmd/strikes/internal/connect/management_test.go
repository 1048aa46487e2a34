package connect

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestGuessManagement(t *testing.T) {
	for amqpURL, want := range map[string]string{
		"amqp://guest:guest@localhost:5672/":  "http://guest:guest@localhost:15672",
		"amqp://mq.example/orders":            "http://guest:guest@mq.example:15672",
		"amqps://ops:h%2Fush@mq.example:5671": "https://ops:h%2Fush@mq.example:15671",
		"amqp://ops:hush@[::1]:5710/":         "http://ops:hush@[::1]:15710",
		"amqp://h:60000/":                     "",
		"http://h/":                           "",
	} {
		if got := GuessManagement(amqpURL); got != want {
			t.Errorf("%s: %q, want %q", amqpURL, got, want)
		}
	}
}

// TestGuessingTrustsWhatAMQPTrusts: a broker with a CA of its own has the same for its API.
func TestGuessingTrustsWhatAMQPTrusts(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}
	need(t, os.WriteFile(ca, pem.EncodeToMemory(block), 0o600))
	for query, trusted := range map[string]bool{"": false, "?cacertfile=" + ca: true} {
		client, err := (&Broker{URL: "amqps://127.0.0.1/" + query}).guessing()
		need(t, err)
		res, err := client.Get(api.URL)
		if err == nil {
			_ = res.Body.Close()
		}
		if trusted != (err == nil) {
			t.Errorf("%q: %v", query, err)
		}
	}
	if _, err := (&Broker{URL: "amqps://127.0.0.1/?cacertfile=/none"}).guessing(); err == nil {
		t.Error("a CA that is not there is passed over")
	}
}

// completed returns the lines that a shell gets for a line which is being typed, and its standard error.
func completed(t *testing.T, api string, words ...string) (names []string, stderr string) {
	t.Helper()
	var f Flags
	move := &cobra.Command{Use: "move QUEUE ID", Run: func(*cobra.Command, []string) {}}
	f.AddRecords(move)
	f.AddManagement(move)
	look := &cobra.Command{Use: "look [QUEUE…]", Run: move.Run}
	new(Flags).AddBroker(look)
	root := &cobra.Command{Use: "strikes"}
	root.AddCommand(move, look)
	t.Setenv("STRIKES_MANAGEMENT_URL", api)
	var out, err strings.Builder
	root.SetOut(&out)
	root.SetErr(&err)
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, words...))
	need(t, root.ExecuteContext(context.Background()))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], strings.ReplaceAll(err.String(),
		"Completion ended with directive: ShellCompDirectiveNoFileComp\n", "")
}

func TestCompleteQueues(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/api/queues/eu%2F1" || r.URL.Query().Get("name") != `^or\.` {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"items":[{"name":"or.ders"},{"name":"or.\u001b[2J"},{"name":"other"}]}`))
	}))
	defer api.Close()
	url := "--amqp-url=amqp://localhost/eu%2F1"
	for _, tt := range []struct {
		words []string
		want  []string
	}{
		{[]string{"move", url, "or."}, []string{"or.ders"}}, // no name that would clear the terminal
		{[]string{"move", "--vhost", "eu/1", "or."}, []string{"or.ders"}},
		{[]string{"move", url, "or.ders", "or."}, nil}, // an ID
		{[]string{"move", "or."}, nil},                 // another virtual host
		{[]string{"move", "--amqp-url", "nonsense", "or."}, nil},
	} {
		got, stderr := completed(t, api.URL, tt.words...)
		if !slices.Equal(got, tt.want) || stderr != "" {
			t.Errorf("%q: %q, %q, want %q", tt.words, got, stderr, tt.want)
		}
	}
}

// TestCompletionIsBounded asks an API that never answers, and one that is away.
func TestCompletionIsBounded(t *testing.T) {
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer silent.Close()
	defer close(over)
	for _, at := range []string{silent.URL, "http://127.0.0.1:1", "http://"} {
		if got, stderr := completed(t, at, "move", "o"); len(got) > 0 || stderr != "" {
			t.Errorf("%s: %q, %q", at, got, stderr)
		}
	}
}
