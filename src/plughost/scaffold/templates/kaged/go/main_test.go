package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

type answer struct {
	ID     int
	Result struct {
		Name, Greeting, Status string
		Methods                []string
	}
	Error Refusal
}

// ask gives what the plugin answers to these requests.
func ask(t *testing.T, requests ...string) []answer {
	t.Helper()
	var out bytes.Buffer
	if err := plugin.serve(strings.NewReader(strings.Join(requests, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	answers := make([]answer, 0, len(requests))
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var next answer
		if err := decoder.Decode(&next); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, next)
	}
	if len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests", len(answers), len(requests))
	}
	return answers
}

const ada = `{"jsonrpc":"2.0","id":2,"method":"{{name}}.greet","params":{"name":"Ada"}}`

func TestItSaysWhoItIsAndThatItIsWell(t *testing.T) {
	answers := ask(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":2,"method":"health.check","params":{}}`)
	about := answers[0].Result
	if about.Name != "{{name}}" || strings.Join(about.Methods, " ") != "{{name}}.greet" || answers[1].Result.Status != "ok" {
		t.Errorf("got %+v", answers)
	}
}

func TestItGreets(t *testing.T) {
	if got := ask(t, ada)[0]; got.ID != 2 || got.Result.Greeting != "Hello, Ada!" {
		t.Errorf("got %+v", got)
	}
}

func TestWrongParamsAreRefusedAndTheNextCallIsServed(t *testing.T) {
	for _, params := range []string{``, `,"params":null`, `,"params":{}`, `,"params":{"name":1}`, `,"params":["Ada"]`} {
		answers := ask(t, `{"jsonrpc":"2.0","id":1,"method":"{{name}}.greet"`+params+`}`, ada)
		if answers[0].ID != 1 || answers[0].Error.Code != invalidParams {
			t.Errorf("to %q it answered %+v", params, answers[0])
		}
		if answers[1].Result.Greeting != "Hello, Ada!" {
			t.Errorf("after %q it answered %+v", params, answers[1])
		}
	}
}

func TestAMethodThatItDoesNotHave(t *testing.T) {
	if got := ask(t, `{"jsonrpc":"2.0","id":1,"method":"{{name}}.sing","params":{}}`)[0]; got.Error.Code != methodNotFound {
		t.Errorf("got %+v", got)
	}
}
