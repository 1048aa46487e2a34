package connect

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestGuessManagement(t *testing.T) {
	for amqpURL, want := range map[string]string{
		"amqp://guest:guest@localhost:5672/":  "http://guest:guest@localhost:15672",
		"amqp://mq.example/orders":            "http://guest:guest@mq.example:15672",
		"amqps://ops:h%2Fush@mq.example:5671": "https://ops:h%2Fush@mq.example:15671",
		"amqp://ops:hush@[::1]:5710/":         "http://ops:hush@[::1]:15710",
		"amqp://h:60000/":                     "",
		"http://h/":                           "",
	} {
		if got := GuessManagement(amqpURL); got != want {
			t.Errorf("%s: %q, want %q", amqpURL, got, want)
		}
	}
}

// TestGuessingTrustsWhatAMQPTrusts: a broker with a CA of its own has the same for its API.
func TestGuessingTrustsWhatAMQPTrusts(t *testing.T) {
	api := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}
	need(t, os.WriteFile(ca, pem.EncodeToMemory(block), 0o600))
	for query, trusted := range map[string]bool{"": false, "?cacertfile=" + ca: true} {
		client, err := (&Broker{URL: "amqps://127.0.0.1/" + query}).guessing()
		need(t, err)
		res, err := client.Get(api.URL)
		if err == nil {
			_ = res.Body.Close()
		}
		if trusted != (err == nil) {
			t.Errorf("%q: %v", query, err)
		}
	}
	if _, err := (&Broker{URL: "amqps://127.0.0.1/?cacertfile=/none"}).guessing(); err == nil {
		t.Error("a CA that is not there is passed over")
	}
}
