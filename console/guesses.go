package console

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// guesses limits wrong tokens for each client address, so that one client cannot lock out the others. Clients behind
// one proxy share its address.
type guesses struct {
	mu      sync.Mutex
	clients map[string]*rate.Limiter
	others  *rate.Limiter // of all clients beyond the bound
}

const (
	// guessEvery and guessBurst are how many wrong tokens a client may send.
	guessEvery = time.Second
	guessBurst = 5
	// mostGuessing are the clients that are kept apart.
	mostGuessing = 1000
)

func newGuesses() *guesses {
	return &guesses{clients: map[string]*rate.Limiter{}, others: rate.NewLimiter(rate.Every(guessEvery), guessBurst)}
}

// tooMany reports whether a client must wait before its next token is looked at, right or wrong.
func (g *guesses) tooMany(remote string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.clients[clientOf(remote)]
	if l == nil && len(g.clients) >= mostGuessing {
		l = g.others
	}
	return l != nil && l.Tokens() < 1
}

// wrong notes a wrong token.
func (g *guesses) wrong(remote string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	client := clientOf(remote)
	l := g.clients[client]
	if l == nil && len(g.clients) >= mostGuessing {
		g.forget()
	}
	switch {
	case l != nil:
	case len(g.clients) >= mostGuessing:
		l = g.others
	default:
		l = rate.NewLimiter(rate.Every(guessEvery), guessBurst)
		g.clients[client] = l
	}
	l.Allow()
}

// forget drops the clients that may guess as often as new ones.
func (g *guesses) forget() {
	for client, l := range g.clients {
		if l.Tokens() >= guessBurst {
			delete(g.clients, client)
		}
	}
}

// clientOf is the address of a client, of IPv6 its network.
func clientOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.String()
		}
	}
	return addr.String()
}
