import socket
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('10.99.0.2',5001)); s.settimeout(6)
try:
  while 1: s.recv(600)
except Exception: pass
