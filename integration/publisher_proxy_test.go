package integration

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// pubProxy stands between a client and the broker, and can fail as networks and brokers do: cut, stop answering, block
// publishers.
type pubProxy struct {
	broker string
	listen net.Listener
	copies sync.WaitGroup

	mu     sync.Mutex
	refuse bool
	pairs  []*pubPair
}

// pubPair is one proxied connection. ice is held while nothing may pass.
type pubPair struct {
	client, broker net.Conn
	ice            sync.RWMutex
	frozen         bool
}

func pubNewProxy(t testing.TB) *pubProxy {
	t.Helper()
	broker, err := url.Parse(brokerURL(t))
	if err != nil {
		t.Fatal("the broker's URL cannot be parsed")
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	p := &pubProxy{broker: broker.Host, listen: listen}
	p.copies.Go(p.accept)
	t.Cleanup(func() {
		_ = listen.Close()
		p.cut()
		p.copies.Wait()
	})
	return p
}

// url is the broker's, by way of the proxy.
func (p *pubProxy) url(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(brokerURL(t))
	if err != nil {
		t.Fatal("the broker's URL cannot be parsed")
	}
	u.Host = p.listen.Addr().String()
	return u.String()
}

func (p *pubProxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		if pair := p.join(client); pair != nil {
			p.copies.Go(func() { pair.copy(pair.broker, pair.client) })
			p.copies.Go(func() { pair.copy(pair.client, pair.broker) })
		} else {
			_ = client.Close()
		}
	}
}

func (p *pubProxy) join(client net.Conn) *pubPair {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return nil
	}
	broker, err := net.Dial("tcp", p.broker)
	if err != nil {
		return nil
	}
	pair := &pubPair{client: client, broker: broker}
	p.pairs = append(p.pairs, pair)
	return pair
}

func (c *pubPair) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		c.ice.RLock()
		_, werr := to.Write(buf[:n])
		c.ice.RUnlock()
		if err != nil || werr != nil {
			return
		}
	}
}

// cut closes all connections, with whatever is on the way in them.
func (p *pubProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pair := range p.pairs {
		_ = pair.client.Close()
		_ = pair.broker.Close()
		if pair.frozen {
			pair.ice.Unlock()
		}
	}
	p.pairs = nil
}

// freeze lets nothing more through the connections there are, and keeps them open.
func (p *pubProxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pair := range p.pairs {
		pair.ice.Lock()
		pair.frozen = true
	}
}

func (p *pubProxy) setRefuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// say sends a method frame on channel 0 of each connection to its client, as
// if the broker had. Only while nothing else is on its way.
func (p *pubProxy) say(t testing.TB, method byte, args []byte) {
	t.Helper()
	const connectionClass, frameMethod, frameEnd = 10, 1, 0xCE
	frame := []byte{frameMethod, 0, 0, 0, 0, 0, byte(4 + len(args)), 0, connectionClass, 0, method}
	frame = append(append(frame, args...), frameEnd)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pairs) == 0 {
		t.Fatal("the proxy has no connection")
	}
	for _, pair := range p.pairs {
		if _, err := pair.client.Write(frame); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// block says connection.blocked, as the broker does in a memory alarm.
func (p *pubProxy) block(t testing.TB, reason string) {
	t.Helper()
	p.say(t, 60, append([]byte{byte(len(reason))}, reason...))
}

func (p *pubProxy) unblock(t testing.TB) {
	t.Helper()
	p.say(t, 61, nil)
}
