-- ARGV: client, the fence of the offer that nobody received.
settle()
silence(ARGV[1], tonumber(ARGV[2]))
return finish({ 'silenced' })
