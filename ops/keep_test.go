package ops

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// TestKeptLinesAreWhole has two programs append to one file. Neither writes into a line of the other.
func TestKeptLinesAreWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kept")
	encode := func(m amqp.Publishing, _ string) ([]byte, error) { return json.Marshal(string(m.Body)) }
	const n = 200
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			messages := make([]*deadletter.Message, n)
			for i := range messages {
				messages[i] = &deadletter.Message{Publishing: amqp.Publishing{Body: []byte(strings.Repeat("x", 3000))}}
			}
			f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for range 5 {
				if err := Keep(f, encode, "q.dlq", messages); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	kept, err := os.ReadFile(name)
	need(t, err)
	lines := 0
	for line := range strings.Lines(string(kept)) {
		if lines++; len(line) != len(`"`+`"`+"\n")+3000 {
			t.Fatalf("line %d has %d bytes: another was written into it", lines, len(line))
		}
	}
	if lines != 2*5*n {
		t.Errorf("%d lines, want %d", lines, 2*5*n)
	}

	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o600)
	need(t, err)
	defer f.Close()
	var before syscall.Rlimit
	need(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	full := syscall.Rlimit{Cur: uint64(len(kept)) + 10, Max: before.Max}
	need(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
	one := []*deadletter.Message{{Publishing: amqp.Publishing{Body: make([]byte, 50)}}}
	if err := Keep(f, encode, "q.dlq", one); err == nil {
		t.Error("a line was kept in a file that may not grow")
	}
	if now, err := os.ReadFile(name); err != nil || len(now) != len(kept) {
		t.Errorf("the file had %d bytes and has %d, %v", len(kept), len(now), err)
	}
}
