package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The range lies below the ephemeral ports of Linux (32768 up) and macOS
// (49152 up): there a killed server's port could be taken, before it starts
// again, by any outgoing connection; also by a client that dials the port it
// waits for and so connects to itself.
const (
	firstPort = 26000
	lastPort  = 31999
)

// freePorts returns n different loopback TCP ports that nobody listens on now.
func freePorts(n int) ([]int, error) {
	var (
		ports []int
		held  []net.Listener
		last  error
	)
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		held, ports = append(held, l), append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("no %d free loopback ports in %d-%d", n, firstPort, lastPort), last)
}
