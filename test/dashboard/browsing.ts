/** A browser for the tests of the dashboard: Debian's Chromium, one for all tests of a file, each with a page of its own. */
import { chromium, type Browser, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { parseResource } from '../../src/core/resource.ts'
import { openApi } from '../../src/open.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { Workshop } from '../cli/tenure-process.ts'

/** How long the page may take to show what it must; for what hangs. */
const SHOWN_WITHIN_MS = 60_000

export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: requireTestTool('chromium'),
    // Root has no sandbox there. Nothing but our own pages is opened.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--js-flags=--expose-gc'],
  })
}

export interface Serving {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
}

/** A server serves for as long as the tests of a file take, on however slow a machine. */
const LONGEST_MS = 30 * 60_000

/** `tenure serve` as a process, before the workshop's store, until the test ends. */
export async function serve(shop: Workshop, options: readonly string[] = []): Promise<Serving> {
  const server = await startServing(shop, options)
  onTestFinished(server.stop)
  return server
}

/** The same until it is stopped. */
export async function startServing(
  shop: Workshop,
  options: readonly string[] = [],
): Promise<Serving> {
  const isPlaced = options.includes('--listen')
  const where = isPlaced ? [] : ['--listen', '127.0.0.1:0']
  const hangsAfterMs = LONGEST_MS
  const server = shop.start(['serve', '--json', ...where, ...options], { hangsAfterMs })
  let stdout = ''
  server.process.stdout?.on('data', (text: Buffer) => (stdout += text.toString()))
  await server.says('\n')
  const stop = async (): Promise<void> => {
    server.process.kill('SIGTERM')
    await server.ended
  }
  const { url } = JSON.parse(stdout) as { readonly url: string }
  return { url, pid: server.process.pid ?? 0, stop }
}

export interface PageOptions {
  readonly browser: Browser
  readonly namespace?: string
  readonly colorScheme?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
}

/** A page in a context of its own, until the test ends. Whatever it complains of, or asks of another server, fails the test. */
export async function openPage(options: PageOptions): Promise<Page> {
  const { page, close } = await newPage(options)
  onTestFinished(close)
  return page
}

/** The same until it is closed. */
export async function newPage(
  options: PageOptions,
): Promise<{ readonly page: Page; readonly close: () => Promise<void> }> {
  const { browser, namespace, colorScheme = 'light', width = 1280, height = 800 } = options
  const context = await browser.newContext({
    ...{ colorScheme, viewport: { width, height }, locale: 'en-GB', reducedMotion: 'reduce' },
  })
  if (namespace !== undefined) {
    await context.addInitScript(`sessionStorage.setItem('tenure.namespace', '${namespace}')`)
  }
  const page = await context.newPage()
  page.setDefaultTimeout(SHOWN_WITHIN_MS)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    // A refused or broken request is told there as well; the page shows it itself.
    const isOfNetwork = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isOfNetwork) complaints.push(message.text())
  })
  page.on('request', (request) => {
    const { hostname } = new URL(request.url())
    if (hostname !== '127.0.0.1') complaints.push(`asked ${hostname}`)
  })
  const close = async (): Promise<void> => {
    await context.close()
    expect(complaints).toEqual([])
  }
  return { page, close }
}

export interface Many {
  readonly count: number
  readonly ttlMs?: number
  readonly nameOf?: (index: number) => string
}

/** Very many leases at once, by a process beside the server. */
export async function acquireMany(storeUrl: string, many: Many): Promise<void> {
  const {
    count,
    ttlMs = 3_600_000,
    nameOf = (index) => `work:${String(index).padStart(6, '0')}`,
  } = many
  const api = await openApi(storeUrl, {})
  for (let from = 0; from < count; from += 1_000) {
    const chunk = Array.from({ length: Math.min(1_000, count - from) }, async (_, offset) => {
      const index = from + offset
      const answer = await api.acquire({
        ...{ id: systemRuntime.uuid(), resource: parseResource(nameOf(index)), waitMs: 0, ttlMs },
        ...{ holder: `agent-${index % 97}`, session: `agent-${index % 97}`, maxRenewals: -1 },
      })
      expect(answer.kind).toBe('granted')
    })
    await Promise.all(chunk)
  }
  await api.close()
}

export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate(`location.hash = '#/${hash}'`)
}

export function row(page: Page, text: string): ReturnType<Page['locator']> {
  return page.locator('.canvas .row', { hasText: text })
}
