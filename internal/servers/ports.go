package servers

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// The range lies below the ephemeral ports of Linux (32768 up) and macOS (49152 up): there a killed server's port could
// be taken, before it starts again, by any outgoing connection; also by a client that dials the port it waits for and
// so connects to itself.
const (
	firstPort = 26000
	lastPort  = 31999
)

// reservePorts returns n different loopback TCP ports that no process listens on, and their reservations. Until they
// are closed, no other caller of any process gets these ports. A reservation is a UDP socket on the port, which no
// server here uses. The TCP port must stay free for the server, also between a kill and a start.
func reservePorts(n int) (ports []int, kept []io.Closer, err error) {
	var last error
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		reservation, err := reserve(port)
		if err != nil {
			last = err
			continue
		}
		ports, kept = append(ports, port), append(kept, reservation)
		if len(ports) == n {
			return ports, kept, nil
		}
	}
	err = fmt.Errorf("no %d free loopback ports in %d-%d", n, firstPort, lastPort)
	return nil, nil, errors.Join(err, last, CloseAll(kept))
}

// CloseAll closes all of them, and joins the errors.
func CloseAll[C io.Closer](all []C) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func reserve(port int) (io.Closer, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	reservation, err := net.ListenUDP("udp", &net.UDPAddr{IP: loopback, Port: port})
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: loopback, Port: port})
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		return nil, errors.Join(err, reservation.Close())
	}
	return reservation, nil
}
