/** All commands, in the order of help. Each is loaded when it is called: `tenure ls` must not pay for the others. */
import type { CliCommand } from './command.ts'

export interface CommandEntry {
  readonly summary: string
  readonly load: () => Promise<CliCommand>
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  run: {
    summary: 'Run a command while holding a lease, or several',
    load: async () => (await import('./commands/run.ts')).run,
  },
  acquire: {
    summary: 'Acquire a lease, or several, without renewing them',
    load: async () => (await import('./commands/acquire.ts')).acquire,
  },
  renew: {
    summary: 'Renew a lease',
    load: async () => (await import('./commands/lease-verbs.ts')).renew,
  },
  release: {
    summary: 'Release a lease',
    load: async () => (await import('./commands/lease-verbs.ts')).release,
  },
  upgrade: {
    summary: 'Upgrade a shared lease to exclusive',
    load: async () => (await import('./commands/upgrade.ts')).upgradeVerb,
  },
  downgrade: {
    summary: 'Downgrade an exclusive lease to shared',
    load: async () => (await import('./commands/lease-verbs.ts')).downgrade,
  },
  transfer: {
    summary: 'Transfer a lease to another holder, or to the next in the queue',
    load: async () => (await import('./commands/lease-verbs.ts')).transfer,
  },
  adopt: {
    summary: 'Take over a lease that was transferred to you',
    load: async () => (await import('./commands/lease-verbs.ts')).adoptVerb,
  },
  derive: {
    summary: 'Derive a lease for another holder, with part of the scope, time and budget',
    load: async () => (await import('./commands/derive.ts')).derive,
  },
  spend: {
    summary: 'Spend part of the budget of a lease',
    load: async () => (await import('./commands/spend.ts')).spend,
  },
  revoke: {
    summary: 'Revoke a lease of any holder, at once or after a grace',
    load: async () => (await import('./commands/revoke.ts')).revoke,
  },
  'release-all': {
    summary: 'Revoke every lease of a holder',
    load: async () => (await import('./commands/release-all.ts')).releaseAll,
  },
  ls: {
    summary: 'List leases and waiters',
    load: async () => (await import('./commands/ls.ts')).ls,
  },
  show: {
    summary: 'Show one lease in full',
    load: async () => (await import('./commands/show.ts')).showCommand,
  },
  why: {
    summary: 'Explain who holds a resource, why, and who waits for it',
    load: async () => (await import('./commands/why.ts')).why,
  },
  wait: {
    summary: 'Wait until a resource is free, without acquiring it',
    load: async () => (await import('./commands/wait.ts')).wait,
  },
  history: {
    summary: 'Show past events from the ledger',
    load: async () => (await import('./commands/history.ts')).history,
  },
  watch: {
    summary: 'Follow new events of the ledger',
    load: async () => (await import('./commands/watch.ts')).watch,
  },
  fleet: {
    summary: 'Show the sessions and instances of a fleet, and drain an instance',
    load: async () => (await import('./commands/fleet.ts')).fleet,
  },
  cleanup: {
    summary: 'Record expired leases, and prune history beyond its retention',
    load: async () => (await import('./commands/cleanup.ts')).cleanup,
  },
  config: {
    summary: 'Read and change the configuration of the store',
    load: async () => (await import('./commands/config.ts')).config,
  },
  ledger: {
    summary: 'Seal, verify, export and query the ledger',
    load: async () => (await import('./commands/ledger.ts')).ledger,
  },
  import: {
    summary: 'Import the database of another system into a new store',
    load: async () => (await import('./commands/import.ts')).importCommand,
  },
  authorize: {
    summary: 'Check what a signed grant allows, without a store',
    load: async () => (await import('./commands/authorize.ts')).authorize,
  },
  keys: {
    summary: 'Create, rotate and export the keys that sign grants and checkpoints',
    load: async () => (await import('./commands/keys.ts')).keys,
  },
  serve: {
    summary: 'Serve the store over HTTP',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  tokens: {
    summary: 'Create, list and revoke the tokens of a server',
    load: async () => (await import('./commands/tokens.ts')).tokens,
  },
  guard: {
    summary: 'Create the table of a guard in your database',
    load: async () => (await import('./commands/guard.ts')).guardCommand,
  },
  hook: {
    summary: 'Answer a hook event of a coding agent',
    load: async () => (await import('./commands/hook.ts')).hook,
  },
  mcp: {
    summary: 'Serve leases to a model over MCP, on stdin and stdout',
    load: async () => (await import('./commands/mcp.ts')).mcp,
  },
  init: {
    summary: 'Set up the hooks of coding agents and git, MCP, and Git LFS',
    load: async () => (await import('./commands/init.ts')).init,
  },
  git: {
    summary: 'Refuse a commit or a push of files that others hold (used by git hooks)',
    load: async () => (await import('./commands/git.ts')).gitCommand,
  },
  doctor: {
    summary: 'Check the installation, the store and the hooks',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  demo: {
    summary: 'Watch five agents share a handful of files for 15 seconds',
    load: async () => (await import('./commands/demo.ts')).demo,
  },
}
