//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proctest"
)

// TestPushStops sends signals to a consumer whose request is under way.
func TestPushStops(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		finish  bool // the request, once the signals had their effect
		status  int
		signals []syscall.Signal
		code    int
		left    int // messages in the queue
	}{
		{"the request may finish", true, 204, []syscall.Signal{syscall.SIGTERM}, cli.ExitOK, 0},
		{"a failure while stopping is not counted", true, 500, []syscall.Signal{syscall.SIGTERM}, cli.ExitOK, 1},
		{"a crash while stopping is not counted", true, 502, []syscall.Signal{syscall.SIGTERM}, cli.ExitOK, 1},
		{"it is cancelled after the time to drain", false, 204, []syscall.Signal{syscall.SIGTERM}, cli.ExitOK, 1},
		{"a second signal cancels it", false, 204, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, cli.ExitInterrupted, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			queue, begun, finish := queueOfOne(t), make(chan struct{}, 9), make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begun <- struct{}{}
				select {
				case <-finish:
					w.WriteHeader(tt.status)
				case <-r.Context().Done():
				}
			}))
			defer s.Close()
			drain := "2s" // after it the requests that do not finish are cancelled
			if tt.finish {
				drain = "1m"
			}
			cmd := strikesOn(t, queue, "consume", "-v", queue, "--http", s.URL, "--drain-timeout", drain)
			stdout, stderr := started(t, cmd)
			<-begun
			interrupt(t, cmd, stderr, tt.signals...)
			if tt.finish {
				close(finish)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || stdout.String() != "" {
				t.Errorf("exit code %d, printed %q:\n%s", code, stdout, stderr)
			}
			if tt.code == cli.ExitInterrupted && !strings.Contains(stderr.String(), "running requests were cancelled") {
				t.Errorf("stderr: %s", stderr)
			}
			proctest.Eventually(t, time.Minute, "the message is where it must be", func() bool {
				n, err := readyIn(brokerURL(t), queue)
				return err == nil && n == tt.left
			})
			list := strikesOn(t, queue, "counter", "list", queue)
			if out, err := list.CombinedOutput(); list.ProcessState.ExitCode() != cli.ExitNothing {
				t.Errorf("it is counted: %v\n%s", err, out)
			}
		})
	}
}

// TestPushPrintsNoSecret: neither a password nor a token is printed or kept, though the endpoint quotes both.
func TestPushPrintsNoSecret(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://u:hush@elsewhere/?key=hush")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" \x1b[2J "+r.Host)
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	need(t, os.WriteFile(token, []byte("hush\n"), 0o600))
	for _, flags := range [][]string{
		{"--http", strings.Replace(s.URL, "://", "://u:hush@", 1) + "/hooks/hush?key=hush"},
		{"--http", s.URL + "/hooks/hush?key=hush", "--http-token-file", token},
		{"--http", s.URL + "/hooks/hush?key=hush", "--http-token-file", token, "--json"},
		{"--http", "http://u:hush@127.0.0.1:1/hooks/hush?key=hush", "--handler-timeout", "1s"},
	} {
		queue := queueOfOne(t)
		cmd := strikesOn(t, queue, append([]string{"consume", queue, "-v", "--max-retries", "1", "--backoff", "10ms",
			"--exit-when-idle", "500ms"}, flags...)...)
		stdout, stderr := started(t, cmd)
		if strings.Contains(flags[1], "127.0.0.1:1/") {
			proctest.Eventually(t, time.Minute, "an attempt", func() bool {
				return strings.Contains(stderr.String(), "not-counted")
			})
			need(t, cmd.Process.Signal(syscall.SIGTERM))
		}
		_ = cmd.Wait()
		list := strikesOn(t, queue, "counter", "list", "--json", queue)
		kept, _ := list.CombinedOutput()
		all := stdout.String() + stderr.String() + string(kept)
		if strings.Contains(all, "hush") || strings.Contains(all, "\x1b") || strings.Contains(all, "dTpodXNo") {
			t.Errorf("%q prints\n%q", flags, all)
		}
		if !strings.Contains(all, "127.0.0.1:1 is out of reach") && !strings.Contains(all,
			"redirect, which is not followed") {
			t.Errorf("%q prints\n%s", flags, all)
		}
	}
}

// TestPushPrintsNoLateBytes: an endpoint that sends a body after a 204 quotes a secret in it.
func TestPushPrintsNoLateBytes(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\nyou sent "+r.Header.Get("Authorization"))
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
		_ = conn.Close()
	}))
	defer s.Close()
	token := filepath.Join(t.TempDir(), "token")
	need(t, os.WriteFile(token, []byte("hush\n"), 0o600))
	queue := queueOfOne(t)
	cmd := strikesOn(t, queue, "consume", queue, "--exit-when-idle", "500ms", "--http", s.URL, "--http-token-file", token)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "you sent") {
		t.Errorf("%v: %s", err, out)
	}
}
