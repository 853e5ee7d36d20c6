/** Real clients of MCP, of both lines of its SDK, over stdio and HTTP. They are in `test/tools`, and typed by what is used of them. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { MAIN } from '../cli/tenure-process.ts'

export interface ToolAnswer {
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly content: readonly { readonly text: string }[]
  readonly isError?: boolean
}

export interface McpClient {
  connect(transport: unknown): Promise<void>
  close(): Promise<void>
  listTools(): Promise<{ readonly tools: readonly Tool[] }>
  callTool(call: { readonly name: string; readonly arguments: object }): Promise<ToolAnswer>
  listResources(): Promise<{ readonly resources: readonly { readonly uri: string }[] }>
  readResource(asked: {
    readonly uri: string
  }): Promise<{ readonly contents: readonly { readonly text: string }[] }>
}

export interface Tool {
  readonly name: string
  readonly description: string
  readonly inputSchema: { readonly properties: object }
  readonly outputSchema: object
}

type Line = '2.x' | '1.x'
type Constructor = new (...args: readonly unknown[]) => unknown
type Module = Readonly<Record<string, Constructor>>

const PACKAGES = {
  '2.x': { folder: 'client/dist', client: 'index.mjs', stdio: 'stdio.mjs', http: 'index.mjs' },
  '1.x': {
    folder: 'sdk/dist/esm/client',
    client: 'index.js',
    stdio: 'stdio.js',
    http: 'streamableHttp.js',
  },
} as const

async function load(line: Line, part: 'client' | 'stdio' | 'http'): Promise<Module> {
  const { folder, [part]: file } = PACKAGES[line]
  const base = new URL('../tools/node_modules/@modelcontextprotocol/', import.meta.url)
  const url = new URL(`${folder}/${file}`, base)
  if (existsSync(url)) return (await import(/* @vite-ignore */ fileURLToPath(url))) as Module
  throw new Error('The tests need clients of MCP: npm ci --ignore-scripts --prefix test/tools')
}

/** A line of the SDK, and the version of the protocol that it is told to speak. */
export interface ClientKind {
  readonly line: Line
  readonly mode?: 'legacy' | { readonly pin: string }
}

export const CLIENT_KINDS: Readonly<Record<string, ClientKind>> = {
  '2.x, protocol 2026-07-28': { line: '2.x', mode: { pin: '2026-07-28' } },
  '2.x, protocol 2025-11-25': { line: '2.x', mode: 'legacy' },
  '1.x': { line: '1.x' },
}

async function connected(
  { line, mode }: ClientKind,
  part: 'stdio' | 'http',
  options: readonly unknown[],
): Promise<McpClient> {
  const { Client } = await load(line, 'client')
  const module = await load(line, part)
  const Transport =
    module[part === 'stdio' ? 'StdioClientTransport' : 'StreamableHTTPClientTransport']
  if (Client === undefined || Transport === undefined) throw new Error(`no ${part} in ${line}`)
  const versions = mode === undefined ? {} : { versionNegotiation: { mode } }
  const client = new Client({ name: 'test', version: '1' }, versions) as McpClient
  await client.connect(new Transport(...options))
  onTestFinished(() => client.close())
  return client
}

export function stdioClient(
  kind: ClientKind,
  { args, cwd }: { readonly args: readonly string[]; readonly cwd: string },
): Promise<McpClient> {
  const options = { command: process.execPath, args: [MAIN, 'mcp', ...args], cwd, stderr: 'ignore' }
  return connected(kind, 'stdio', [options])
}

export function httpClient(kind: ClientKind, url: string, token?: string): Promise<McpClient> {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  return connected(kind, 'http', [new URL(`${url}/mcp`), { requestInit: { headers } }])
}

/** The structured result, which the text says as well. */
export async function call(
  client: McpClient,
  name: string,
  args: object,
): Promise<Record<string, unknown>> {
  const { structuredContent, content, isError } = await client.callTool({ name, arguments: args })
  const [first] = content
  if (isError === true || structuredContent === undefined) throw new Error(first?.text)
  if (JSON.stringify(structuredContent) !== first?.text) throw new Error('the text says otherwise')
  return structuredContent
}

export interface GrantView {
  readonly granted: boolean
  readonly leases: readonly {
    readonly id: string
    readonly fence: number
    readonly resource: string
  }[]
  readonly blockers: readonly { readonly holder: string; readonly reason?: string }[]
  readonly tickets: readonly string[]
  readonly place: number
  readonly next: string
}

/** Of `lease_acquire` and `lease_wait`. */
export async function ask(client: McpClient, name: string, args: object): Promise<GrantView> {
  return (await call(client, name, args)) as unknown as GrantView
}
