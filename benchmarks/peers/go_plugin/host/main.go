// The host: starts plugins and calls them, as lines on stdin say. benchmarks/contenders/apart.py has the
// list of orders.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"plughost.example/benchmark/contract"
)

const size = 100

type order struct {
	Do      string
	Count   int
	Size    int
	Width   int
	Seconds float64
	Method  string
	Text    string
	Limit   float64
}

type outcome struct {
	Outcome string `json:"outcome"`
	Said    string `json:"said"`
}

type opened struct {
	process *plugin.Client
	calls   *contract.Client
}

var plugins []opened

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var told order
		must(json.Unmarshal(lines.Bytes(), &told))
		must(json.NewEncoder(os.Stdout).Encode(obey(told)))
	}
	end()
}

func obey(told order) any {
	switch told.Do {
	case "hello":
		return versions()
	case "open":
		return open(told.Count)
	case "close":
		end()
	case "tidy":
		debug.FreeOSMemory()
	case "one_at_a_time":
		check(told.Size)
		return oneAtATime(echo(told.Size), told.Seconds)
	case "in_flight":
		return inFlight(echo(told.Size), told.Width, told.Seconds)
	case "attempt":
		return attempt(told.Method, told.Text, told.Limit)
	}
	return nil
}

func versions() map[string]string {
	found := map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if strings.HasSuffix(module.Path, "/go-plugin") || strings.HasSuffix(module.Path, "/grpc") {
			found[filepath.Base(module.Path)] = module.Version
		}
	}
	return found
}

func open(count int) []float64 {
	took := []float64{}
	for range count {
		began := time.Now()
		process := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig:  contract.Handshake,
			Plugins:          map[string]plugin.Plugin{contract.Name: &contract.Plugin{}},
			Cmd:              exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "plugin")),
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
			Logger:           hclog.NewNullLogger(),
		})
		calls, err := contract.Open(process)
		must(err)
		plugins = append(plugins, opened{process, calls})
		check(size)
		took = append(took, time.Since(began).Seconds())
	}
	return took
}

func end() {
	for _, one := range plugins {
		one.process.Kill()
	}
	plugins = nil
}

// last is the plugin opened last: calls go to it.
func last() *contract.Client {
	return plugins[len(plugins)-1].calls
}

func payload(size int) string {
	return strings.Repeat("x", size-len(`{"text":""}`))
}

func check(size int) {
	sent := payload(size)
	got, err := last().Call(context.Background(), "echo", sent)
	must(err)
	if got != sent {
		panic("what came back is not what was sent")
	}
}

func echo(size int) func() {
	calls, text := last(), payload(size)
	return func() {
		_, err := calls.Call(context.Background(), "echo", text)
		must(err)
	}
}

func attempt(method, text string, limit float64) outcome {
	outcomes := make(chan outcome, 1)
	go func() {
		got, err := last().Call(context.Background(), method, text)
		if err != nil {
			outcomes <- outcome{"error", err.Error()}
			return
		}
		outcomes <- outcome{"answer", got[:min(len(got), 80)]}
	}()
	select {
	case ended := <-outcomes:
		return ended
	case <-time.After(duration(limit)):
		return outcome{"hangs", ""}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
