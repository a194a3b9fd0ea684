package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

type answer struct {
	Result struct {
		Name   string
		Buffer struct {
			Cells [][2]struct {
				X, Y   int
				Symbol string
			}
		}
		Stdout []byte
		Exit   int `json:"exit_code"`
	}
	Error Refusal
}

// ask gives what the plugin answers to these requests, each a method and its params. Keys are only told.
func ask(t *testing.T, requests ...[2]string) []answer {
	t.Helper()
	var in, out bytes.Buffer
	for id, request := range requests {
		number := fmt.Sprintf(`"id":%d,`, id)
		if request[0] == "plugin/handle_key" {
			number = ""
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":"%s","params":%s}`, number, request[0], request[1])
		if err := writeFrame(&in, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := serve(plugin, &in, &out); err != nil {
		t.Fatal(err)
	}
	var answers []answer
	for frames := bufio.NewReader(&out); ; {
		body, err := readFrame(frames)
		if err != nil {
			return answers
		}
		var next answer
		if err := json.Unmarshal(body, &next); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, next)
	}
}

// line gives a line of the screen.
func (answer answer) line(y int) string {
	var text strings.Builder
	for _, painted := range answer.Result.Buffer.Cells {
		if painted[0].Y == y {
			text.WriteString(painted[1].Symbol)
		}
	}
	return text.String()
}

const size = `{"viewport":{"width":40,"height":5}}`

func TestItSaysWhoItIs(t *testing.T) {
	init := `{"manifest_path":"","granted_capabilities":[],"abi_version":%d}`
	if got := ask(t, [2]string{"plugin/init", fmt.Sprintf(init, 2)})[0]; got.Result.Name != "{{name}}" {
		t.Errorf("got %+v", got)
	}
	if got := ask(t, [2]string{"plugin/init", fmt.Sprintf(init, 3)})[0]; got.Error.Code != manifestValidation {
		t.Errorf("got %+v", got)
	}
}

func TestTheScreenGreetsAndShowsTheLastKey(t *testing.T) {
	answers := ask(t, [2]string{"plugin/render", size},
		[2]string{"plugin/handle_key", `{"key":{"code":{"type":"char","ch":"x"}}}`}, [2]string{"plugin/render", size},
		[2]string{"plugin/handle_key", `{"key":{"code":{"type":"esc"}}}`}, [2]string{"plugin/render", size},
		[2]string{"plugin/render", `{"viewport":{"width":5,"height":1}}`})
	for place, want := range []string{"Last key: none yet", "Last key: x", "Last key: esc", ""} {
		if got := answers[place].line(1); got != want {
			t.Errorf("line 1 is %q, not %q", got, want)
		}
	}
	if first, cut := answers[0].line(0), answers[3].line(0); first != "Hello, world!" || cut != "Hello" {
		t.Errorf("line 0 is %q, cut %q", first, cut)
	}
}

func TestTheCommandLine(t *testing.T) {
	got := ask(t, [2]string{"plugin/cli_dispatch", `{"namespace":"{{name}}","argv":["Ada"]}`})[0]
	if string(got.Result.Stdout) != "Hello, Ada!\n" || got.Result.Exit != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestWhatItCannotDoIsRefused(t *testing.T) {
	answers := ask(t, [2]string{"sing", `{}`}, [2]string{"plugin/render", `{"viewport":{"width":"wide","height":1}}`})
	if answers[0].Error.Code != methodNotFound || answers[1].Error.Code != invalidParams {
		t.Errorf("got %+v", answers)
	}
}
