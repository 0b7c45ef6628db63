# Ruby's servers. Each answers a request that it took with "taken " and what it was told, as JSON.
require 'json'

kind, port = ARGV

def taken(method, target, path, headers)
  text = "taken #{JSON.generate(method: method, target: target, path: path, headers: headers)}\n"
rescue StandardError
  "taken {\"method\":\"\",\"target\":\"\",\"path\":\"\",\"headers\":[]}\n"
end

app = lambda do |env|
  headers = env.filter_map { |name, value| [name[5..].downcase, value] if name.start_with?('HTTP_') }
  target = env['REQUEST_URI'] || env['REQUEST_PATH'] || env['PATH_INFO']
  [200, { 'Content-Type' => 'text/plain' }, [taken(env['REQUEST_METHOD'], target, env['PATH_INFO'], headers)]]
end

case kind
when 'puma'
  require 'puma'
  require 'puma/server'
  server = Puma::Server.new(app, defined?(Puma::LogWriter) ? Puma::LogWriter.null : Puma::Events.null)
  server.add_tcp_listener('127.0.0.1', Integer(port))
  server.run.join
when 'thin'
  require 'thin'
  Thin::Logging.silent = true
  Thin::Server.start('127.0.0.1', Integer(port), app, signals: false)
when 'webrick'
  require 'webrick'
  quiet = WEBrick::Log.new(File::NULL)
  server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: Integer(port), Logger: quiet, AccessLog: [])
  servlet = Class.new(WEBrick::HTTPServlet::AbstractServlet) do
    def service(request, response)
      headers = request.header.flat_map { |name, values| values.map { |value| [name, value] } }
      response.body = taken(request.request_method, request.unparsed_uri, request.path, headers)
    end
  end
  server.mount('/', servlet)
  server.start
end
