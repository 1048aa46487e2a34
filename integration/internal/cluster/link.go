package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// rabbitLink is a proxy between two nodes: in the port mapper of one, it stands
// for the other.
type rabbitLink struct {
	from, to *servers.RabbitMQ
	proxy    *proxy.Proxy
	entry    net.Conn // the mapper keeps the entry for as long as this is open
}

func newRabbitLink(ctx context.Context, from, to *servers.RabbitMQ) (*rabbitLink, error) {
	p, err := proxy.New(context.WithoutCancel(ctx), fmt.Sprintf("127.0.0.1:%d", to.DistPort()))
	if err != nil {
		return nil, err
	}
	entry, err := register(ctx, from.MapperPort(), strings.TrimSuffix(to.Node(), "@localhost"), p.Addr())
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("registering the link of %s to %s: %w", from.Node(), to.Node(), err)
	}
	return &rabbitLink{from: from, to: to, proxy: p, entry: entry}, nil
}

func (l *rabbitLink) close() error {
	l.proxy.Close()
	return l.entry.Close()
}

// register enters a node in a port mapper, by Erlang's distribution protocol
// (ALIVE2_REQ). The entry goes when the connection does.
func register(ctx context.Context, epmdPort int, name, addr string) (_ net.Conn, err error) {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", epmdPort))
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_, err = conn.Write(aliveRequest(name, uint16(port)))
	var reply [2]byte
	if err == nil {
		_, err = io.ReadFull(conn, reply[:])
	}
	if err == nil && reply[1] != 0 {
		err = fmt.Errorf("the port mapper refuses with code %d", reply[1])
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func aliveRequest(name string, port uint16) []byte {
	const request, visible, tcp, highest, lowest = 'x', 'M', 0, 6, 5
	b := binary.BigEndian.AppendUint16([]byte{request}, port)
	b = append(b, visible, tcp, 0, highest, 0, lowest)
	b = binary.BigEndian.AppendUint16(b, uint16(len(name))) //nolint:gosec // the name is one of ours, and short
	b = append(b, name...)
	b = append(b, 0, 0)                                                     // nothing more
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) //nolint:gosec // as above
}
