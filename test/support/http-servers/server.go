// Go's net/http. Answers a request that it took with "taken " and what it was told, as JSON.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
)

func main() {
	http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := [][2]string{}
		for name, values := range r.Header {
			for _, value := range values {
				headers = append(headers, [2]string{strings.ToLower(name), value})
			}
		}
		told, _ := json.Marshal(map[string]any{
			"method": r.Method, "target": r.RequestURI, "path": r.URL.Path, "headers": headers,
		})
		w.Write([]byte("taken " + string(told) + "\n"))
	}))
}
