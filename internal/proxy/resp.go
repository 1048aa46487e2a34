package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The proxy needs to know where a request and a reply end, and the words of a request. It passes on the bytes that came
// in. The public RESP libraries build values or serve commands, which is more code than this.

// readRequest reads one request, an array of strings, and returns its bytes and its words.
func readRequest(r *bufio.Reader) (raw []byte, words []string, err error) {
	raw, kind, n, err := readHead(r, nil)
	if err != nil {
		return nil, nil, err
	}
	if kind != '*' {
		return nil, nil, fmt.Errorf("%w: got type %q for a request, want an array", errRESP, kind)
	}
	for range n {
		from := len(raw)
		if raw, err = readValue(r, raw); err != nil {
			return nil, nil, err
		}
		words = append(words, text(raw[from:]))
	}
	return raw, words, nil
}

// text is the payload of a string with its length in front.
func text(value []byte) string {
	_, payload, _ := bytes.Cut(value, []byte("\r\n"))
	return string(bytes.TrimSuffix(payload, []byte("\r\n")))
}

// readValue reads one value of RESP2, with the values in it, and appends its bytes to raw.
func readValue(r *bufio.Reader, raw []byte) ([]byte, error) {
	raw, kind, n, err := readHead(r, raw)
	switch {
	case err != nil:
		return nil, err
	case kind == '$' && n >= 0:
		all := bytes.NewBuffer(raw) // grows with the bytes that arrive, not to the announced size
		_, err = io.CopyN(all, r, int64(n)+2)
		return all.Bytes(), err
	case kind == '*':
		for range n {
			if raw, err = readValue(r, raw); err != nil {
				return nil, err
			}
		}
	}
	return raw, nil
}

var errRESP = errors.New("proxy: reading RESP")

// most is the largest length that Redis accepts.
const most = 512 << 20

// readHead reads the first line of a value and appends it to raw. The number is the length of a string and the count of
// an array, -1 if that is null.
func readHead(r *bufio.Reader, raw []byte) (_ []byte, kind byte, n int, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, 0, 0, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, 0, 0, fmt.Errorf("%w: got a line of %d bytes without CR LF", errRESP, len(line))
	}
	switch kind = line[0]; kind {
	case '+', '-', ':':
	case '$', '*':
		if n, err = strconv.Atoi(string(line[1 : len(line)-2])); err != nil || n < -1 || n > most {
			return nil, 0, 0, fmt.Errorf("%w: got a length that is no number from -1 to %d", errRESP, most)
		}
	default:
		return nil, 0, 0, fmt.Errorf("%w: got type %q, want one of RESP2", errRESP, kind)
	}
	return append(raw, line...), kind, n, nil
}
