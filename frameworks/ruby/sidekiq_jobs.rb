# ruby-sidekiq: A worker process runs jobs, a retried one, scheduled ones and a bulk; the statistics.
require "sidekiq"
Sidekiq.configure_client { |config| config.redis = { url: ENV["REDIS_URL"] } }
Sidekiq.configure_server do |config|
  config.redis = { url: ENV["REDIS_URL"] }
  config.options[:poll_interval_average] = 0.5
  config.options[:average_scheduled_poll_interval] = 0.5
  config.logger.level = Logger::FATAL
end

class Add
  include Sidekiq::Worker
  def perform(x) = Sidekiq.redis { |redis| redis.incrby("sum", x) }
end

class Stubborn
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 0 }
  def perform
    tries = Sidekiq.redis { |redis| redis.incr("tries") }
    raise "not yet" if tries < 2
  end
end

unless Sidekiq.server?
  require "sidekiq/api"
  10.times { |i| Add.perform_async(i) }
  Add.perform_bulk([[100], [200]])
  Add.perform_in(1, 1000)
  gone = Add.perform_in(3600, 5)
  Stubborn.perform_async
  puts "queue #{Sidekiq::Queue.new.size} scheduled #{Sidekiq::ScheduledSet.new.size}"
  puts "deleted #{Sidekiq::ScheduledSet.new.find_job(gone).delete}"
  worker = Process.spawn("sidekiq", "-r", File.expand_path(__FILE__), "-c", "2", "-e", "production",
                         out: "/dev/null", err: "/dev/null")
  begin
    ends = Time.now + 60
    value = ->(key) { Sidekiq.redis { |redis| redis.get(key) }.to_i }
    sleep 0.1 until (value["sum"] == 1345 && value["tries"] == 2) || Time.now > ends
    sleep 0.5
    puts "sum #{value["sum"]} tries #{value["tries"]}"
    stats = Sidekiq::Stats.new
    puts "left #{stats.enqueued} #{stats.scheduled_size} #{stats.retry_size} #{stats.dead_size}"
  ensure
    Process.kill("TERM", worker)
    Process.wait(worker)
  end
end
