import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** The JDK's own server. Answers a request that it took with "taken " and what it was told, as JSON. */
public class Plain {
  public static void main(String[] args) throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 256);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", exchange -> {
      StringBuilder headers = new StringBuilder();
      exchange.getRequestHeaders().forEach((name, values) -> values.forEach(value ->
          headers.append(headers.length() == 0 ? "" : ",").append("[")
              .append(quote(name.toLowerCase())).append(",").append(quote(value)).append("]")));
      byte[] body = ("taken {\"method\":" + quote(exchange.getRequestMethod())
          + ",\"target\":" + quote(exchange.getRequestURI().toString())
          + ",\"path\":" + quote(exchange.getRequestURI().getPath())
          + ",\"headers\":[" + headers + "]}\n").getBytes("UTF-8");
      exchange.sendResponseHeaders(200, body.length);
      exchange.getResponseBody().write(body);
      exchange.close();
    });
    server.start();
  }

  static String quote(String text) {
    if (text == null) return "null";
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') quoted.append(String.format("\\u%04x", (int) c));
      else quoted.append(c);
    }
    return quoted.append("\"").toString();
  }
}
