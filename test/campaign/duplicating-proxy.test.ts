import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { DuplicatingProxy } from '../../campaign/chaos/duplicating-proxy.ts'

it('a request is sent twice while it should be, and answered once', async () => {
  const heard: string[] = []
  const server = http.createServer((request, answer) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      heard.push(`${request.method} ${request.url} ${body}`)
      answer.end(`answer ${heard.length}`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const proxy = await DuplicatingProxy.start(`http://127.0.0.1:${port}`)
  onTestFinished(async () => {
    await proxy.close()
    server.closeAllConnections()
    server.close()
  })
  const post = (): Promise<Response> =>
    fetch(`${proxy.url}/v1`, { method: 'POST', body: 'acquire' })
  expect(await (await post()).text()).toBe('answer 1')
  proxy.isDuplicating = true
  expect(await (await post()).text()).toMatch(/^answer [23]$/)
  await expect.poll(() => heard.length).toBe(3)
  await (await fetch(`${proxy.url}/v1/leases?holder=ann`)).text()
  expect(heard).toEqual([
    ...['POST /v1 acquire', 'POST /v1 acquire', 'POST /v1 acquire'],
    'GET /v1/leases?holder=ann ',
  ])
})
