package peer;

import java.util.List;
import org.apache.kafka.clients.admin.Admin;

/** Makes a topic and waits until it can be written to. */
final class Topic {
    static final String HELP = """
            topic: makes a topic, if it isn't there
              --bootstrap H:P
              --topic NAME
              --partitions N  (8)
            """;

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv, HELP);
        try (Admin admin = Clients.admin(args.text("bootstrap", null))) {
            Clients.createTopics(admin, List.of(args.text("topic", null)), (int) args.number("partitions", 8));
        }
    }

    private Topic() {}
}
