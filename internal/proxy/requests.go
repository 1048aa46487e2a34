package proxy

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/strikesmq/strikes/internal/pause"
)

// Treatment is the treatment of one request and its reply by a proxy. The zero value passes both on.
type Treatment struct {
	Double bool          // the server gets the request twice; the client gets the first reply
	Late   time.Duration // from the request until its reply is passed on; later replies wait for it
	Lose   Part          // it does not arrive, and nothing that follows it on its connection does
	Reset  Part          // the connection is reset before it is passed on
}

// Part is a request or its reply. The zero value is neither.
type Part int

// The parts of an exchange.
const (
	Request Part = iota + 1 // the server never gets it
	Reply                   // the server has taken the request
)

// sent is a request on its way.
type sent struct {
	Treatment
	due time.Time // of its reply
}

// exchange passes on requests and replies until either side closes the connection.
func (p *Proxy) exchange(c *pair) {
	requests := make(chan sent, 1024) // that have no reply yet
	var replies sync.WaitGroup
	replies.Go(func() {
		p.passReplies(c, requests)
		_ = c.client.Close()
		for range requests { // passRequests may wait for room
		}
	})
	p.passRequests(c, requests)
	_ = c.server.Close()
	close(requests)
	c.cut() // ends the wait of a late reply, whose client is gone
	replies.Wait()
}

// passRequests passes on the client's requests until the connection ends.
func (p *Proxy) passRequests(c *pair, requests chan<- sent) {
	in, lost := bufio.NewReader(c.client), false
	for {
		raw, err := proto.Read(in)
		if err != nil {
			return
		}
		words, err := proto.ReadStrings(raw)
		if err != nil {
			return
		}
		s := sent{Treatment: p.treat(words)}
		s.due = time.Now().Add(s.Late + 2*time.Duration(p.latency.Load()))
		if s.Reset == Request {
			reset(c)
			return
		}
		if lost = lost || s.Lose == Request || c.half.Load(); lost {
			continue
		}
		if s.Double {
			raw += raw
		}
		requests <- s // before the server can reply
		if _, err := io.WriteString(c.server, raw); err != nil && !c.half.Load() {
			return
		}
	}
}

// passReplies passes on the server's replies until the connection ends.
func (p *Proxy) passReplies(c *pair, requests <-chan sent) {
	in, lost := bufio.NewReader(c.server), false
	for {
		if _, err := in.Peek(1); err != nil {
			if c.half.Load() { // the client is not to know
				<-c.ctx.Done()
			}
			return
		}
		s := <-requests
		raw, err := proto.Read(in)
		if err == nil && s.Double {
			_, err = proto.Read(in)
		}
		if err != nil {
			return
		}
		if s.Reset == Reply {
			reset(c)
			return
		}
		if lost = lost || s.Lose == Reply || p.mute.Load(); lost {
			continue
		}
		pause.For(c.ctx, time.Until(s.due))
		if _, err := io.WriteString(c.client, raw); err != nil {
			return
		}
	}
}

// reset closes both sides. The client gets a reset, not an orderly end.
func reset(c *pair) {
	if tcp, ok := c.client.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.client.Close()
	_ = c.server.Close()
}

// Odds are the chances, 0 to 1, of faults of a request. At most one of Lose, Late and Reset happens; Double is drawn
// apart.
type Odds struct {
	Lose   float64 // the reply is lost
	Late   float64 // the reply is late, by LateFrom to LateTo
	Reset  float64 // the connection is reset: before the request or before its reply, as often
	Double float64 // the server gets the request twice

	LateFrom, LateTo time.Duration
}

// Treat returns a function for NewStore, which draws the Treatment of each call of a script; all other requests pass.
// Connections share the draws: a seed repeats their sequence, but which call gets which draw depends on the order in
// which they arrive.
func (o Odds) Treat(seed uint64) func(words []string) Treatment {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
	return func(words []string) Treatment {
		if !strings.HasPrefix(strings.ToLower(words[0]), "eval") {
			return Treatment{}
		}
		mu.Lock()
		defer mu.Unlock()
		return o.draw(rnd)
	}
}

func (o Odds) draw(rnd *rand.Rand) Treatment {
	t := Treatment{Double: rnd.Float64() < o.Double}
	switch at := rnd.Float64(); {
	case at < o.Lose:
		t.Lose = Reply
	case at < o.Lose+o.Late:
		t.Late = o.LateFrom + time.Duration(rnd.Float64()*float64(o.LateTo-o.LateFrom))
	case at < o.Lose+o.Late+o.Reset:
		t.Reset = Request + Part(rnd.IntN(2))
	}
	return t
}
