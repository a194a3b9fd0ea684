package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

type answer struct {
	ID     any
	Result struct{ Greeting string }
	Error  Refusal
}

// ask gives what the plugin answers to these lines.
func ask(t *testing.T, lines ...string) []answer {
	t.Helper()
	var out bytes.Buffer
	if err := serve(methods, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	answers := make([]answer, 0, len(lines))
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var next answer
		if err := decoder.Decode(&next); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, next)
	}
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d requests", len(answers), len(lines))
	}
	return answers
}

const ada = `{"id":"b","method":"greet","params":{"name":"Ada"}}`

func TestItGreets(t *testing.T) {
	if got := ask(t, ada)[0]; got.ID != "b" || got.Result.Greeting != "Hello, Ada!" {
		t.Errorf("got %+v", got)
	}
}

func TestWrongParamsAreRefusedAndTheNextCallIsServed(t *testing.T) {
	for _, params := range []string{``, `,"params":null`, `,"params":{}`, `,"params":{"name":1}`, `,"params":["Ada"]`} {
		answers := ask(t, `{"id":"a","method":"greet"`+params+`}`, ada)
		if answers[0].ID != "a" || answers[0].Error.Code != invalidParams {
			t.Errorf("to %q it answered %+v", params, answers[0])
		}
		if answers[1].Result.Greeting != "Hello, Ada!" {
			t.Errorf("after %q it answered %+v", params, answers[1])
		}
	}
}

func TestAMethodThatItDoesNotHave(t *testing.T) {
	if got := ask(t, `{"id":1,"method":"sing"}`)[0]; got.Error.Code != methodNotFound {
		t.Errorf("got %+v", got)
	}
}
