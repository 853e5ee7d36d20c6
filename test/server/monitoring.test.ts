/** docs/monitoring.md, its rules and its dashboard, and what a server really shows. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { requireTestTool } from '../../scripts/test-tools.mjs'
import { serving } from './serving.ts'

const run = promisify(execFile)
const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url))
const PROMTOOL = requireTestTool('promtool')

async function shownMetrics(): Promise<string> {
  const server = await serving()
  await server.ask('POST /v1/leases', { body: { resource: 'work:1', holder: 'ann' } })
  return (await server.ask<string>('GET /metrics')).body
}

/** The names that a text speaks of, without what Prometheus adds to a histogram. */
function namesIn(text: string): ReadonlySet<string> {
  const found = text.match(/\btenure_[a-z_]+/g) ?? []
  return new Set(found.map((name) => name.replace(/_(bucket|count|sum)$/, '')))
}

describe('the metrics', () => {
  it('are what promtool takes for good ones', async () => {
    const checked = execFile(PROMTOOL, ['check', 'metrics'])
    const ours = (await shownMetrics())
      .split('\n')
      .filter((line) => line.includes('tenure_'))
      .join('\n')
    let said = ''
    checked.stderr?.on('data', (text: string) => (said += text))
    checked.stdin?.end(`${ours}\n`)
    const code = await new Promise((resolve) => checked.once('close', resolve))
    expect([said, code]).toEqual(['', 0])
  })

  it('are all in docs/monitoring.md, and no others', async () => {
    const page = fs.readFileSync(`${DOCS}monitoring.md`, 'utf8')
    const table = page.split('\n').filter((line) => line.startsWith('| `tenure_'))
    const documented = new Set(table.map((line) => /tenure_[a-z_]+/.exec(line)?.[0] ?? ''))
    const types = (await shownMetrics())
      .split('\n')
      .filter((line) => line.startsWith('# TYPE tenure_'))
    const shown = new Set(types.map((line) => line.split(' ')[2] ?? ''))
    expect(documented).toEqual(shown)
  })
})

describe('the alert rules', () => {
  it('are valid', async () => {
    const { stdout } = await run(PROMTOOL, ['check', 'rules', `${DOCS}monitoring/alerts.yml`])
    expect(stdout).toContain('SUCCESS')
  })

  it('fire when they should, and only then', async () => {
    const { stdout } = await run(PROMTOOL, ['test', 'rules', `${DOCS}monitoring/alerts.test.yml`])
    expect(stdout).toContain('SUCCESS')
  })

  it('and the dashboard speak of metrics that exist', async () => {
    const shown = namesIn(await shownMetrics())
    for (const file of ['alerts.yml', 'dashboard.json']) {
      const spoken = namesIn(fs.readFileSync(`${DOCS}monitoring/${file}`, 'utf8'))
      expect([...spoken].filter((name) => !shown.has(name))).toEqual([])
      expect(spoken.size).toBeGreaterThan(5)
    }
  })

  it('are all explained', () => {
    const page = fs.readFileSync(`${DOCS}monitoring.md`, 'utf8')
    const rules = fs.readFileSync(`${DOCS}monitoring/alerts.yml`, 'utf8')
    const alerts = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = '']) => name)
    expect(alerts.length).toBeGreaterThan(6)
    expect(alerts.filter((name) => !page.includes(`| \`${name}\` |`))).toEqual([])
  })
})
