import java.io.IOException;
import java.util.Collections;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Jetty. Answers a request that it took with "taken " and what it was told, as JSON. */
public class Jetty {
  public static void main(String[] args) throws Exception {
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.parseInt(args[0]));
    server.addConnector(connector);
    server.setHandler(new AbstractHandler() {
      @Override
      public void handle(String path, Request base, HttpServletRequest request, HttpServletResponse response)
          throws IOException {
        base.setHandled(true);
        StringBuilder headers = new StringBuilder();
        for (String name : Collections.list(request.getHeaderNames())) {
          for (String value : Collections.list(request.getHeaders(name))) {
            headers.append(headers.length() == 0 ? "" : ",").append("[").append(Plain.quote(name.toLowerCase()))
                .append(",").append(Plain.quote(value)).append("]");
          }
        }
        response.getWriter().print("taken {\"method\":" + Plain.quote(request.getMethod())
            + ",\"target\":" + Plain.quote(request.getRequestURI()) + ",\"path\":" + Plain.quote(path)
            + ",\"headers\":[" + headers + "]}\n");
      }
    });
    server.start();
  }
}
