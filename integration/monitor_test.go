package integration

import (
	"bufio"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// watchStore follows MONITOR. The function that it returns ends that, and reports every command for which touches is
// true.
func watchStore(t *testing.T) func(touches func(command string) bool) {
	t.Helper()
	u, err := url.Parse(redisURL(t))
	need(t, err)
	conn, err := net.Dial("tcp", u.Host)
	need(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	lines := bufio.NewReader(conn)
	if password, ok := u.User.Password(); ok {
		send(t, conn, lines, "AUTH "+password)
	}
	send(t, conn, lines, "MONITOR")
	return func(touches func(string) bool) {
		t.Helper()
		marker := uniqueName(t, "end-of-watch")
		other, err := net.Dial("tcp", u.Host)
		need(t, err)
		defer func() { _ = other.Close() }()
		if password, ok := u.User.Password(); ok {
			send(t, other, bufio.NewReader(other), "AUTH "+password)
		}
		need(t, errOf(other.Write([]byte("ECHO "+marker+"\r\n"))))
		need(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("MONITOR ended before its marker: %v", err)
			}
			if strings.Contains(line, marker) {
				return
			}
			if touches(line) {
				t.Errorf("a command of ours: %.300s", line)
			}
		}
	}
}

func send(t *testing.T, conn net.Conn, lines *bufio.Reader, command string) {
	t.Helper()
	need(t, errOf(conn.Write([]byte(command+"\r\n"))))
	if reply, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(reply, "+OK") {
		t.Fatalf("%.10s: %q, %v", command, reply, err)
	}
}

// commandTouchesRecords reports whether a command may read or write records. It is false for the commands with which a
// connection or a session begins, such as the question whether lanes are blocked. It is also false for the read of
// operators' requests once a second (counter/scripts/control.lua).
func commandTouchesRecords(line string) bool {
	line = strings.ToLower(line)
	for _, greeting := range []string{`"hello"`, `"client"`, `"ping"`, `"info"`, `"config" "get"`, `"auth"`} {
		if strings.Contains(line, greeting) {
			return false
		}
	}
	for _, key := range []string{`:pause"`, `:consumers"`, `:skips"`, `:lanes"`, `:lanes:owner"`} {
		if strings.Contains(line, key) {
			return false
		}
	}
	return strings.Contains(line, "strikes") || strings.Contains(line, "eval")
}
