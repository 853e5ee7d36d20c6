/** HTTP handlers of one process, and of every other process of the store, take turns: docs/recipes/handlers.md */
import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure } from 'tenure'

const store = process.argv[2] ?? process.env.TENURE_STORE ?? 'sqlite:leases.db'
const tenure = await openTenure(store, { holder: `web-${process.pid}` })
const stock = new Map([['book', 2]])

/** Reads, waits for something else, and writes: two at once would sell one book twice. */
async function sell(item) {
  const left = stock.get(item)
  await sleep(10)
  if (left === 0) return 'sold out'
  stock.set(item, left - 1)
  return `sold, ${left - 1} left`
}

async function serve(request, response) {
  const item = request.url.slice(1)
  try {
    const options = { waitMs: 30_000 }
    response.end(await tenure.withLease(`stock:${item}`, options, () => sell(item)))
  } catch (error) {
    const status = isLeaseError(error) && error.retryable ? 503 : 500
    response.writeHead(status, { 'retry-after': '1' }).end(String(error.code ?? error))
  }
}
const server = http.createServer((request, response) => void serve(request, response))
await once(server.listen(0, '127.0.0.1'), 'listening')

const buy = () => fetch(`http://127.0.0.1:${server.address().port}/book`).then((r) => r.text())
const answers = await Promise.all([buy(), buy(), buy()])
console.log(answers.toSorted().join('\n'))
server.close()
await tenure.close()
