package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
)

// TestSharedSession: a pooler gives the session of a client that has left to the next one, with the server's own
// process number and the statements that the first one prepared. The next Store goes on without names.
func TestSharedSession(t *testing.T) {
	u, err := url.Parse(migrated(t))
	need(t, err)
	u.Host = poolOfOne(t, u.Host)
	for n := range 3 {
		s, err := Open(u.String()+"&pool_max_conns=1", nil)
		need(t, err)
		for range 2 {
			_, err = s.Save(t.Context(), counter.Queue{Name: "q"},
				counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "a", Any: true}}})
			if err != nil || s.unnamed.Load() != (n > 0) {
				t.Errorf("client %d: %v, unnamed: %v", n+1, err, s.unnamed.Load())
			}
		}
		_ = s.Close()
	}
}

// TestResetSession: a pooler resets the settings of a session, and the database is REPEATABLE READ by default. A Save
// that waits for another still sees the documents of that one, because the Store goes on without named statements.
func TestResetSession(t *testing.T) {
	url, of := migrated(t), counter.Queue{Name: "q"}
	do(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''',
		current_database()); END $$`)
	s := open(t, url+"&pool_max_conns=1")
	limit := []counter.Doc{{Name: "limit", Data: "3"}}
	change := counter.Change{Docs: limit}
	if saved, err := s.Save(t.Context(), of, change); err != nil || !saved[0] || s.unnamed.Load() {
		t.Fatal(saved, err, s.unnamed.Load())
	}
	need(t, errOf(s.pool.Exec(t.Context(), "RESET ALL")))
	other, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	need(t, err)
	keys, _ := columnsOf([]counter.Change{change}, []int{0}).advisory(s.base.Key(of))
	for _, sql := range []string{fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", keys[0]),
		"UPDATE strikes_doc SET version = version + 1"} {
		need(t, errOf(tx.Exec(t.Context(), sql)))
	}
	saved := make(chan []bool)
	go func() {
		made, err := s.Save(t.Context(), of, counter.Change{Same: limit, Docs: []counter.Doc{{Name: "r:a", Data: "a"}}})
		if err != nil {
			t.Error(err)
		}
		saved <- made
	}()
	proctest.Eventually(t, 20e9, "the Save waits", func() (waits bool) {
		err := other.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	need(t, tx.Commit(t.Context()))
	if made := <-saved; len(made) != 1 || made[0] || !s.unnamed.Load() {
		t.Errorf("a Save whose limit has changed: %v; unnamed: %v", made, s.unnamed.Load())
	}
}

// poolOfOne serves one client after the other on one session of the server at host, and returns its own address.
func poolOfOne(t *testing.T, host string) string {
	t.Helper()
	server, err := net.Dial("tcp", host)
	need(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	var mu sync.Mutex // of client and hello
	var client net.Conn
	var hello []byte // the server's replies up to the first that it is ready
	greeted := make(chan struct{})
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_, _ = listener.Close(), server.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for begins := true; ; {
			m := readMessage(server, 1)
			if m == nil {
				return
			}
			mu.Lock()
			if client != nil {
				_, _ = client.Write(m)
			}
			if begins {
				hello = append(hello, m...)
			}
			if begins && m[0] == 'Z' {
				begins = false
				close(greeted)
			}
			mu.Unlock()
		}
	})
	serving.Go(func() {
		for first := true; ; {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			startup := readMessage(conn, 0)
			mu.Lock()
			if client = conn; !first {
				_, _ = conn.Write(hello)
			}
			mu.Unlock()
			if first {
				_, _ = server.Write(startup)
				<-greeted
				first = false
			}
			for m := readMessage(conn, 1); m != nil && m[0] != 'X'; m = readMessage(conn, 1) {
				_, _ = server.Write(m)
			}
			mu.Lock()
			client = nil
			mu.Unlock()
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

// readMessage reads a message of PostgreSQL's protocol whose kind has so many bytes; nil at the end.
func readMessage(r io.Reader, kind int) []byte {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[kind:])-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil
	}
	return append(head, rest...)
}
