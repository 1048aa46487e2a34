package counter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// causes checks that every method of c fails with a StoreError of this cause.
func causes(ctx context.Context, t *testing.T, c *Counter, want StoreFault) {
	t.Helper()
	for method, err := range calls(ctx, c) {
		var failed *StoreError
		if !errors.As(err, &failed) || failed.Fault != want {
			t.Errorf("%s: %v, want cause %q", method, err, want)
		}
	}
}

// TestCausesOfReplies: errors of servers, word for word. Package integration provokes most of them on real servers.
func TestCausesOfReplies(t *testing.T) {
	fake := miniredis.RunT(t)
	c := dialTest(t, "redis://"+fake.Addr())
	for want, replies := range map[StoreFault][]string{
		FaultReadOnly: {
			"READONLY You can't write against a read only replica.",
			"ERR Error running script (call to f_1): " +
				"@user_script:9: @user_script: 9: -READONLY You can't write against a read only replica. ",
			"ERR Error running script (call to f_1): " + // alone it is no fault of a PING: see TestCheckThatCannotSave
				"@user_script:9: -MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk ",
		},
		FaultOutOfSpace: {
			"OOM command not allowed when used memory > 'maxmemory'.",
			"ERR Error running script (call to f_1): " +
				"@user_script:9: -OOM command not allowed when used memory > 'maxmemory'. ",
		},
		FaultLoading: {
			"LOADING Redis is loading the dataset in memory",
		},
		FaultBusy: {
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		},
		FaultFailover: {
			"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
			"CLUSTERDOWN The cluster is down",
			"TRYAGAIN Multiple keys request during rehashing of slot",
			"NOREPLICAS Not enough good replicas to write.",
		},
		FaultDenied: {
			"NOAUTH Authentication required.",
			"WRONGPASS invalid username-password pair or user is disabled.",
			"NOPERM this user has no permissions to run the 'evalsha' command",
			"ERR Protocol error: unauthenticated multibulk length",
			"ERR The user executing the script can't run this command or subcommand script: 1d57, on @user_script:46.",
			"ERR ACL failure in script: User app has no permissions to run the 'zadd' command script: 1d57",
			"ERR Error running script (call to f_1): " +
				"@user_script:9: @user_script: 9: The user executing the script can't run this command or subcommand",
		},
		FaultOther: {
			"ERR Protocol error: expected '$', got '4'",
			"ERR max number of clients reached",
			"WRONGTYPE Operation against a key holding the wrong kind of value",
			"ERR Error running script (call to f_1): @user_script:9: user_script:9: attempt to index a nil value",
		},
		FaultOtherKind: {
			"ERR unknown command 'evalsha', with args beginning with: ",
			"MOVED 3999 127.0.0.1:6381",
		},
		FaultNotSetUp: {
			"ERR DB index is out of range",
			"ERR SELECT is not allowed in cluster mode",
		},
	} {
		for _, reply := range replies { // Redis 6 wraps the error of a command in a script
			t.Run(strings.Fields(reply)[0]+" "+string(want), func(t *testing.T) {
				if err := c.rdb.Ping(t.Context()).Err(); err != nil { // a connection that is set up
					t.Fatal(err)
				}
				fake.SetError(reply)
				defer fake.SetError("")
				causes(t.Context(), t, c, want)
			})
		}
	}
}

// speak starts a TCP server that answers each line with say, and then closes the connection or reads on.
func speak(t *testing.T, say string, closes bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends when the client closes its end
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					if _, err := conn.Write([]byte(say)); err != nil || closes {
						return
					}
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String()
}

func TestCausesOfOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		say    string
		closes bool
		want   StoreFault
	}{
		"HTTP": {"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 " +
			"Bad Request", true, FaultOtherKind},
		"SMTP":                  {"220 mail.example.com ESMTP\r\n500 unrecognized\r\n", false, FaultOtherKind},
		"SSH":                   {"SSH-2.0-OpenSSH_9.7\r\n", true, FaultOtherKind},
		"hangs up":              {"", true, FaultUnreachable},
		"says nothing":          {"", false, FaultSlow},
		"half a reply":          {"%9\r\n$4\r\nhalf", true, FaultUnreachable},
		"a length that is none": {"$x\r\n", false, FaultOtherKind},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(speak(t, tc.say, tc.closes), nil)
			need(t, err)
			defer c.Close()
			_, err = c.Fail(t.Context(), attempt(message("1"), "a"), again)
			var failed *StoreError
			if !errors.As(err, &failed) || failed.Fault != tc.want {
				t.Errorf("fail: %v, want cause %q", err, tc.want)
			}
			if _, err = c.Check(t.Context()); !errors.As(err, &failed) || failed.Fault != tc.want {
				t.Errorf("check: %v, want cause %q", err, tc.want)
			}
		})
	}
}

func TestCausesOfTheWay(t *testing.T) {
	fake := miniredis.RunT(t)
	at := "redis://" + fake.Addr()
	t.Run("closed client", func(t *testing.T) {
		c, err := Dial(at, nil)
		need(t, err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		causes(t.Context(), t, c, FaultUnreachable)
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		causes(ctx, t, dialTest(t, at), FaultSlow)
	})
	t.Run("canceled", func(t *testing.T) {
		c := dialTest(t, at)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		causes(ctx, t, c, FaultOther)
		for method, err := range calls(ctx, c) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v is not context.Canceled", method, err)
			}
		}
	})
	t.Run("canceled while dialing", func(t *testing.T) {
		if got := faultOf(&net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}); got != FaultOther {
			t.Errorf("cause %q: it was the caller, not the store", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		c := dialTest(t, at)
		fake.Close()
		causes(t.Context(), t, c, FaultUnreachable)
	})
}

func TestWhatIsNoReplyOfTheScript(t *testing.T) {
	for name, say := range map[string]string{
		"OK": "+OK\r\n", "a number": ":1\r\n", "another list": "*2\r\n$3\r\nRUN\r\n:1\r\n", "no list": "*0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			redis := miniredis.RunT(t)
			redis.Server().SetPreHook(func(to *server.Peer, cmd string, _ ...string) bool {
				if cmd == "EVALSHA" {
					to.WriteRaw(say)
				}
				return cmd == "EVALSHA"
			})
			c := dialTest(t, "redis://"+redis.Addr())
			if got, err := c.Fail(t.Context(), attempt(message("1"), "a"), again); !errors.Is(err, ErrReply) {
				t.Errorf("%+v, %v, want ErrReply", got, err)
			}
		})
	}
}

// TestNoPasswordInErrors: a server that does not know AUTH or HELLO repeats their arguments, cut short, and others do
// it in words of their own.
func TestNoPasswordInErrors(t *testing.T) {
	const password = "correct-horse-battery-staple"
	for name, say := range map[string]func(cmd string, args []string) string{
		"Redis before 6.0": func(cmd string, args []string) string {
			return fmt.Sprintf("ERR unknown command `%s`, with args beginning with: `%s`, ", cmd, strings.Join(args, "`, `"))
		},
		"Redis": func(cmd string, args []string) string {
			return fmt.Sprintf("ERR unknown command '%s', with args beginning with: '%s' ", cmd, strings.Join(args, "' '"))
		},
		"cut short": func(cmd string, args []string) string {
			return fmt.Sprintf("ERR unknown command '%s', with args beginning with: '%.12s", cmd, args[len(args)-1])
		},
		"a proxy": func(cmd string, args []string) string {
			return fmt.Sprintf("ERR %s is not supported here: %v", cmd, args)
		},
	} {
		for scheme, end := range map[string]string{"redis": "", "redis+cluster": "", "redis+sentinel": "?master_name=m"} {
			t.Run(name+", "+scheme, func(t *testing.T) {
				var asked atomic.Bool
				fake := miniredis.RunT(t)
				fake.Server().SetPreHook(func(to *server.Peer, cmd string, args ...string) bool {
					for _, a := range args {
						if a == password {
							asked.Store(true)
						}
					}
					to.WriteError(say(cmd, append([]string{"x"}, args...)))
					return true
				})
				c, err := Dial(scheme+"://app:"+password+"@"+fake.Addr()+end, nil)
				need(t, err)
				defer c.Close()
				for method, err := range calls(t.Context(), c) {
					for ; err != nil; err = errors.Unwrap(err) {
						if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, password[:12]) {
							t.Errorf("%s: %s", method, text)
						}
					}
				}
				if !asked.Load() {
					t.Error("no password was sent: the test shows nothing")
				}
			})
		}
	}
}
