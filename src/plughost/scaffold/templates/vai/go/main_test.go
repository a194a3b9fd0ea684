package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

type answer struct {
	Type   string
	ID     string
	OK     bool
	Plugin struct {
		PackageID string `json:"package_id"`
		Version   string
	}
	Event struct{ Message string }
	Error struct{ Code string }
	Body  struct {
		Status string
		Error  struct{ Code string }
		Result struct {
			StructuredOutput struct{ Greeting string } `json:"structured_output"`
			IsError          bool                      `json:"is_error"`
		}
	}
}

// ask gives what the plugin says to a hello and these messages.
func ask(t *testing.T, messages ...string) []answer {
	t.Helper()
	var in, out bytes.Buffer
	for _, message := range append([]string{`"type":"hello","role":"host"`}, messages...) {
		if err := writeFrame(&in, []byte(`{"protocol":"vai.rpc.v1",`+message+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := plugin.serve(&in, &out); err != nil {
		t.Fatal(err)
	}
	var answers []answer
	for frames := bufio.NewReader(&out); ; {
		body, err := readFrame(frames)
		if err == io.EOF {
			return answers
		}
		var next answer
		if err != nil || json.Unmarshal(body, &next) != nil {
			t.Fatal(err)
		}
		answers = append(answers, next)
	}
}

func request(op, export, input string) string {
	return fmt.Sprintf(`"type":"request","id":"a","op":%q,"body":{"export_id":%q,"context":{},"input":%s}`, op, export, input)
}

func TestItIsWhatItsManifestSays(t *testing.T) {
	if got := ask(t)[0].Plugin; got.PackageID != "example/{{name}}" || got.Version != "0.1.0" {
		t.Errorf("got %+v", got)
	}
}

func TestItGreets(t *testing.T) {
	answers := ask(t, request("tool.invoke", "greet", `{"name":"Ada"}`))
	if len(answers) != 3 || answers[1].Event.Message != "greeting Ada" {
		t.Fatalf("got %+v", answers)
	}
	last := answers[2]
	if last.ID != "a" || last.Body.Status != "succeeded" || last.Body.Result.StructuredOutput.Greeting != "Hello, Ada!" {
		t.Errorf("got %+v", last)
	}
}

func TestWrongInputIsAFailedResult(t *testing.T) {
	for _, input := range []string{`null`, `{}`, `{"name":1}`, `["Ada"]`} {
		got := ask(t, request("tool.invoke", "greet", input))[1]
		if !got.OK || got.Body.Status != "failed" || !got.Body.Result.IsError {
			t.Errorf("to %q it answered %+v", input, got)
		}
	}
}

func TestWhatItCannotDoIsRefused(t *testing.T) {
	if got := ask(t, request("tool.invoke", "sing", `{}`))[1]; got.Body.Error.Code != "export.unknown" {
		t.Errorf("got %+v", got)
	}
	if got := ask(t, request("tool.sing", "greet", `{}`))[1]; got.OK || got.Error.Code != "protocol.invalid_frame" {
		t.Errorf("got %+v", got)
	}
}
