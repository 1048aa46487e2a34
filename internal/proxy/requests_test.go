package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/strikesmq/strikes/internal/proctest"
)

// request spells out a request as clients send it.
func request(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// storeServer replies to each request with its last word, and keeps the requests.
type storeServer struct {
	addr string

	mu    sync.Mutex
	taken []string
}

func newStoreServer(t *testing.T) *storeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	s := &storeServer{addr: listener.Addr().String()}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		tasks.Wait()
	})
	return s
}

func (s *storeServer) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		raw, err := proto.Read(in)
		if err != nil {
			return
		}
		words, _ := proto.ReadStrings(raw)
		last := words[len(words)-1]
		s.mu.Lock()
		s.taken = append(s.taken, last)
		s.mu.Unlock()
		fmt.Fprintf(conn, "*2\r\n+OK\r\n$%d\r\n%s\r\n", len(last), last)
	}
}

func (s *storeServer) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.taken, " ")
}

// through returns a proxy of s that treats requests by their last word, or passes on bytes if treat is nil, and a
// connection through it.
func through(t *testing.T, s *storeServer, treat map[string]Treatment) (*Proxy, *storeClient) {
	t.Helper()
	var by func(words []string) Treatment
	if treat != nil {
		by = func(words []string) Treatment { return treat[words[len(words)-1]] }
	}
	p, err := NewStore(t.Context(), s.addr, by)
	need(t, err)
	t.Cleanup(p.Close)
	return p, newStoreClient(t, p)
}

func newStoreClient(t *testing.T, p *Proxy) *storeClient {
	t.Helper()
	conn := dial(t, p)
	return &storeClient{conn: conn, in: bufio.NewReader(conn)}
}

type storeClient struct {
	conn net.Conn
	in   *bufio.Reader
}

// send sends one request for each word, in one write.
func (c *storeClient) send(words ...string) {
	var all string
	for _, w := range words {
		all += request("ECHO", w)
	}
	_, _ = c.conn.Write([]byte(all))
}

// reply returns the word that comes back, or "silent" if none does in time, or "closed".
func (c *storeClient) reply(within time.Duration) string {
	_ = c.conn.SetReadDeadline(time.Now().Add(within))
	raw, err := proto.Read(c.in)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silent"
	case err != nil:
		return "closed"
	}
	return strings.Split(raw, "\r\n")[3]
}

const (
	soon   = time.Minute // far more than a reply takes
	silent = 100 * time.Millisecond
)

func TestStoreTreatments(t *testing.T) {
	for _, tc := range []struct {
		name    string
		b       Treatment // of the second of three requests in one pipeline
		replies []string
		took    string
	}{
		{"a lost reply silences its connection", Treatment{Lose: Reply}, []string{"a", "silent", "silent"}, "a b c"},
		{"a lost request too", Treatment{Lose: Request}, []string{"a", "silent", "silent"}, "a"},
		{"a doubled request gets one reply", Treatment{Double: true}, []string{"a", "b", "c"}, "a b b c"},
		{"doubled, and its reply lost", Treatment{Double: true, Lose: Reply}, []string{"a", "silent"}, "a b b c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStoreServer(t)
			_, c := through(t, s, map[string]Treatment{"b": tc.b})
			c.send("a", "b", "c")
			for i, want := range tc.replies {
				within := soon
				if want == "silent" {
					within = silent
				}
				if got := c.reply(within); got != want {
					t.Errorf("reply %d: got %q, want %q", i+1, got, want)
				}
			}
			s.awaitTaken(t, tc.took)
		})
	}
}

func TestStoreResets(t *testing.T) {
	for _, tc := range []struct {
		part Part
		took string
	}{{Request, ""}, {Reply, "a"}} {
		s := newStoreServer(t)
		_, c := through(t, s, map[string]Treatment{"a": {Reset: tc.part}})
		c.send("a")
		if got := c.reply(soon); got != "closed" {
			t.Errorf("reset before part %d: got %q, want closed", tc.part, got)
		}
		if got := s.took(); got != tc.took {
			t.Errorf("reset before part %d: the server took %q, want %q", tc.part, got, tc.took)
		}
	}
}

func TestStoreLateReplies(t *testing.T) {
	_, c := through(t, newStoreServer(t), map[string]Treatment{"a": {Late: 150 * time.Millisecond}})
	began := time.Now()
	c.send("a", "b")
	for _, want := range []string{"a", "b"} {
		if got := c.reply(soon); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if took := time.Since(began); took < 150*time.Millisecond {
			t.Errorf("%q came after %v, want 150 ms: replies keep their order", want, took)
		}
	}
}

// TestStoreServerGone: a client that sends nothing learns that the server closed the connection.
func TestStoreServerGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer listener.Close()
	p, err := NewStore(t.Context(), listener.Addr().String(), func([]string) Treatment { return Treatment{} })
	need(t, err)
	defer p.Close()
	c := newStoreClient(t, p)
	server, err := listener.Accept()
	need(t, err)
	_ = server.Close()
	if got := c.reply(soon); got != "closed" {
		t.Errorf("got %q, want closed", got)
	}
}

func TestOdds(t *testing.T) {
	odds := Odds{Lose: .15, Late: .10, Reset: .05, Double: .30, LateFrom: 100 * time.Millisecond,
		LateTo: 600 * time.Millisecond}
	count, rnd := map[string]int{}, rand.New(rand.NewPCG(1, 0))
	const n = 100000
	for range n {
		d := odds.draw(rnd)
		for name, is := range map[string]bool{
			"lost": d.Lose == Reply, "late": d.Late > 0, "reset": d.Reset == Request, "reset after": d.Reset == Reply,
			"double": d.Double,
		} {
			if is {
				count[name]++
			}
		}
		if d.Lose == Request || d.Late != 0 && (d.Late < odds.LateFrom || d.Late > odds.LateTo) {
			t.Fatalf("%+v", d)
		}
	}
	for name, want := range map[string]float64{"lost": .15, "late": .10, "reset": .025, "reset after": .025,
		"double": .30} {
		if got := float64(count[name]) / n; got < want-.01 || got > want+.01 {
			t.Errorf("%s: %.3f, want %.3f", name, got, want)
		}
	}
	a, b, other := odds.Treat(1), odds.Treat(1), odds.Treat(2)
	differs := false
	for range 100 {
		if got := a([]string{"HELLO", "3"}); got != (Treatment{}) {
			t.Errorf("a request that calls no script: %+v", got)
		}
		x := fmt.Sprint(a([]string{"EVALSHA"}))
		if x != fmt.Sprint(b([]string{"evalsha"})) {
			t.Error("one seed gave two sequences")
		}
		differs = differs || x != fmt.Sprint(other([]string{"eval"}))
	}
	if !differs {
		t.Error("two seeds gave one sequence")
	}
}

// awaitTaken waits until the server has taken the requests that it is to take.
func (s *storeServer) awaitTaken(t *testing.T, want string) {
	t.Helper()
	proctest.Within(t, soon, func() error {
		if got := s.took(); got != want {
			return fmt.Errorf("the server took %q, want %q", got, want)
		}
		return nil
	})
}

func TestWatched(t *testing.T) {
	server := newStoreServer(t)
	seen := make(chan string, 9)
	p, err := New(t.Context(), server.addr)
	need(t, err)
	defer p.Close()
	p.Watch(func() func() { seen <- "joined"; return func() { seen <- "left" } })
	conn := dial(t, p)
	if got := <-seen; got != "joined" {
		t.Error(got)
	}
	conn.Close()
	if got := <-seen; got != "left" {
		t.Error(got)
	}
}
