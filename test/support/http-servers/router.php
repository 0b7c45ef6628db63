<?php
// PHP's built-in server. Answers a request that it took with "taken " and what it was told, as JSON.
$headers = [];
foreach ($_SERVER as $name => $value) {
    if (str_starts_with($name, 'HTTP_')) $headers[] = [strtolower(substr($name, 5)), $value];
}
$path = rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]);
header('content-type: text/plain');
echo 'taken ', json_encode([
    'method' => $_SERVER['REQUEST_METHOD'], 'target' => $_SERVER['REQUEST_URI'], 'path' => $path, 'headers' => $headers,
], JSON_INVALID_UTF8_SUBSTITUTE), "\n";
