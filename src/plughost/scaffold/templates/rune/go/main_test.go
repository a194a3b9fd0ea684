package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

const handshake = `{"type":"handshake","protocol_version":"rterm.plugin.v1"}`

type manifest struct {
	ID       string   `json:"plugin_id"`
	Protocol string   `json:"protocol_version"`
	Tools    []string `json:"exposed_tools"`
}

type response struct {
	RequestID string `json:"request_id"`
	Status    string
	Output    struct{ Greeting string }
	Error     Refusal
}

// converse gives what the plugin says to a handshake and a request.
func converse(t *testing.T, tool, input string) (manifest, response) {
	t.Helper()
	request := `{"type":"request","request_id":"r1","tool_name":"` + tool + `","context":{},"input":` + input + `}`
	var out bytes.Buffer
	if err := serve(plugin, strings.NewReader(handshake+"\n"+request+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	var opening struct{ Manifest manifest }
	var answer response
	decoder := json.NewDecoder(&out)
	if decoder.Decode(&opening) != nil || decoder.Decode(&answer) != nil || decoder.More() {
		t.Fatalf("it said %s", out.String())
	}
	return opening.Manifest, answer
}

func TestItSaysWhoItIsAndGreets(t *testing.T) {
	about, answer := converse(t, "greet", `{"name":"Ada"}`)
	if about.ID != "{{name}}" || about.Protocol != "rterm.plugin.v1" || strings.Join(about.Tools, " ") != "greet" {
		t.Errorf("it calls itself %+v", about)
	}
	if answer.RequestID != "r1" || answer.Status != "ok" || answer.Output.Greeting != "Hello, Ada!" {
		t.Errorf("it answered %+v", answer)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	for _, input := range []string{`{}`, `{"name":1}`, `["Ada"]`, `null`} {
		if _, answer := converse(t, "greet", input); answer.Status != "error" || answer.Error.Code != "invalid_input" {
			t.Errorf("to %s it answered %+v", input, answer)
		}
	}
}

func TestAToolThatItDoesNotHave(t *testing.T) {
	if _, answer := converse(t, "sing", `{}`); answer.Status != "error" || answer.Error.Code != "unknown_tool" {
		t.Errorf("it answered %+v", answer)
	}
}
