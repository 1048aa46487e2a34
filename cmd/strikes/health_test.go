package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

func TestHealth(t *testing.T) {
	var h health
	for _, tc := range []struct {
		consuming bool
		path      string
		want      int
	}{
		{false, "/live", http.StatusOK}, {false, "/ready", http.StatusServiceUnavailable}, {true, "/ready", http.StatusOK},
		{true, "/live", http.StatusOK}, {false, "/ready", http.StatusServiceUnavailable}, {true, "/", http.StatusNotFound},
	} {
		h.consuming.Store(tc.consuming)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
		if w.Code != tc.want {
			t.Errorf("%s, consuming %v: %d, want %d", tc.path, tc.consuming, w.Code, tc.want)
		}
	}
}

func TestHealthAddress(t *testing.T) {
	var h health
	if _, err := h.serve(t.Context(), "nowhere", io.Discard); cli.ExitCode(err) != cli.ExitMisuse {
		t.Errorf("got %v", err)
	}
	taken := httptest.NewServer(&h)
	defer taken.Close()
	_, err := h.serve(t.Context(), taken.Listener.Addr().String(), io.Discard)
	if cli.ExitCode(err) != cli.ExitMisuse || !strings.HasSuffix(err.Error(), "; stop the program that listens there, or "+
		"give another port") {
		t.Errorf("got %v", err)
	}
	stop, err := h.serve(t.Context(), "127.0.0.1:0", io.Discard)
	need(t, err)
	stop()
}
